"""The alarm clock: it knows one moment, the nearest at which something is due."""
