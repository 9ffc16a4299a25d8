"""The launcher: one command, its process tree, and the record of its run."""
