"""Numbers with their nouns, in the singular or plural."""


def counted(count: int, one: str, more: str) -> str:
    """The number with the noun for one, or with that for none or several."""
    return f"{count:,} {one if count == 1 else more}"
