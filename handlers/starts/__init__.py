"""Starts: runs that were ordered, and those that can never begin."""
