"""The daemon as a process: its parts started and stopped, and what it says of itself."""
