"""Starts: runs that the daemon was asked to start, and those that can never begin."""
