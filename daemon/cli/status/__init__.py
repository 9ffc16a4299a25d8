"""The state of the daemon."""
