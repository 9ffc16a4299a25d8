"""Copies of the store: made, examined, restored."""
