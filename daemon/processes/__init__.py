"""Processes: the launcher, their identities, and how to end a whole process tree reliably."""
