"""Looking: what is new in run directories and other tools' logs, and what follows from it."""
