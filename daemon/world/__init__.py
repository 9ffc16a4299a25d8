"""The implementations of the ports on a real machine."""
