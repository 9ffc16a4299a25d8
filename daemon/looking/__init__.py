"""Looking: what is new in run directories and foreign sessions' logs, and what follows from it."""
