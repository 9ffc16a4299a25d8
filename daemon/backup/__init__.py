"""Copies of the store: taken, examined, put back."""
