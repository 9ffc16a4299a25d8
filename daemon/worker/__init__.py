"""The worker: the one place where deciding meets doing."""
