"""Requests: what a person asks of the daemon itself, by a file in the inbox."""
