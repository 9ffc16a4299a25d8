"""Run directories: the only code that touches agents' files. Everything in them is hostile."""
