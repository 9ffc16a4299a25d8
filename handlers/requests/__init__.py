"""Requests: what a person asks of the daemon itself, with a file in the inbox."""
