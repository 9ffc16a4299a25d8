"""The fleet."""
