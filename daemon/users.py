"""The names of the machine's users."""

import pwd


def name_of(uid: int) -> str:
    """The name of the user with this number: the number itself if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
