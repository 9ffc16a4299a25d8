"""Numbers and their nouns, as they agree in English."""


def counted(count: int, one: str, more: str) -> str:
    """The number before what is said of one, or of none and of several."""
    return f"{count:,} {one if count == 1 else more}"
