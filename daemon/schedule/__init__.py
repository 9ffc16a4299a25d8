"""The alarm clock: it knows only the next moment at which something is due."""
