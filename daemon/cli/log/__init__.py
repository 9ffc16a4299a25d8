"""The daemon's log."""
