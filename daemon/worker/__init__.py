"""The worker: runs the handlers, and carries out what they decided."""
