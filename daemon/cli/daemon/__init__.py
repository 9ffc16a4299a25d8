"""The daemon as a process and as a service."""
