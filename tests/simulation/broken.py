"""What ends a history: a law that doesn't hold."""


class Broken(AssertionError):
    """A law doesn't hold, or a daemon ended that should have gone on."""
