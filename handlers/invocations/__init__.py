"""Invocations: each requested use of a skill, from the request to its end."""
