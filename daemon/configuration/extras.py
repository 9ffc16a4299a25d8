"""Libraries that Runward needs only for some purposes, and how to install them."""


def how_to_install(extra: str) -> str:
    """What to do where the libraries of an extra are missing."""
    return f"in Runward's checkout, run pipx install --force '.[{extra}]' (or the same with uv or pip)"
