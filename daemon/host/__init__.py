"""The daemon as a process: starting and stopping its parts, and reporting its state."""
