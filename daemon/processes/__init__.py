"""Runs and kills: the launcher, who a process is, and how a whole tree of them is ended for sure."""
