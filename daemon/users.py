"""What the machine's users are called."""

import pwd


def name_of(uid: int) -> str:
    """What the user of this number is called: the number itself where nobody says."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
