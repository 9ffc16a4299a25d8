"""Runs and kills: the launcher, process identities, and how to end a whole process tree reliably."""
