"""The launcher as a command."""
