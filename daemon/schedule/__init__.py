"""The alarm clock: it knows only the next time at which something is due."""
