"""The sandbox: foreign code runs once, in a process that is cut off from the machine, and its answer is bounded."""
