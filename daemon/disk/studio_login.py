"""Who may come in to the Studio: the key of the state directory, the name derived from it, codes, and cookies.

A login link has a code, which is kept as a file named by its hash. The one who removes that file is logged in, so a
code works once. A cookie is an HMAC with the key, so a new key logs out everybody.
"""

import hashlib
import hmac
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from runward.daemon.disk.durable import make_durably, write_durably
from runward.daemon.disk.secret_key import new_secret_key, secret_key

KEY: Final = "studio.key"
DIRECTORY: Final = "studio"
"""Below the state directory: the codes, and the port that is used again."""

CODE_S: Final = 300.0
"""Seconds for which a login link is valid."""

COOKIE_S: Final = 30 * 86_400.0
"""Seconds for which a browser is logged in."""

_CODES: Final = f"{DIRECTORY}/codes"
_CODE: Final = re.compile(r"[0-9a-f]{64}")
_COOKIE: Final = re.compile(r"(\d{1,12})\.([0-9a-f]{64})")
_CONSEQUENCE: Final = "every browser is then logged out of the Studio"


def studio_key(state: Path) -> bytes:
    """The key, made on first use. Raises `KeyUnusable` and `OSError`."""
    return secret_key(state, KEY, _CONSEQUENCE)


def log_out_all(state: Path) -> None:
    """Replace the key: no cookie, and no link made before, is valid any more. Raises `OSError`."""
    new_secret_key(state, KEY)
    _remove_codes(state, lambda _: True)


def own_name(key: bytes) -> str:
    """The host name of this Studio. Browsers resolve it to this machine, and give its cookie to no other name."""
    return f"{_mac(key, 'name')[:8]}.localhost"


def new_code(state: Path) -> str:
    """A code for a login link: 256 random bits. Raises `OSError`."""
    make_durably(state, _CODES)
    now = time.time()
    _remove_codes(state, lambda made_at: now - made_at > CODE_S)
    code = os.urandom(32).hex()
    write_durably(state / _CODES, hashlib.sha256(code.encode()).hexdigest(), b"")
    return code


def use_code(state: Path, code: str) -> bool:
    """Use up a code; whether it was valid. Of several at the same time, one is."""
    if _CODE.fullmatch(code) is None:
        return False
    file = state / _CODES / hashlib.sha256(code.encode()).hexdigest()
    try:
        made_at = file.lstat().st_mtime
        file.unlink()
    except OSError:
        return False
    # A clock that was set back makes a code look as if it were made later.
    return abs(time.time() - made_at) <= CODE_S


def new_cookie(key: bytes, host: str, now: float) -> str:
    """The value of a cookie for this host name."""
    expires = int(now + COOKIE_S)
    return f"{expires}.{_signed(key, host, expires)}"


def is_valid_cookie(key: bytes, host: str, value: str, now: float) -> bool:
    """Whether we made this cookie for this host name, and it is still valid."""
    found = _COOKIE.fullmatch(value)
    if found is None or int(found[1]) < now:
        return False
    return hmac.compare_digest(_signed(key, host, int(found[1])), found[2])


def _signed(key: bytes, host: str, expires: int) -> str:
    return _mac(key, f"cookie\n{host}\n{expires}")


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _remove_codes(state: Path, is_old: Callable[[float], bool]) -> None:
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(state / _CODES)):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and is_old(status.st_mtime):
                    os.unlink(entry.path)
