"""Invocations: each use of a skill that was ordered, from the order to its end."""
