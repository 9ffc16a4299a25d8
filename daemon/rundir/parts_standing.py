"""Whether the parts of a bundle have their names and their bytes. Nothing here follows a link; imports stay cheap."""

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from typing import Final

from runward.daemon.rundir.opening import ABSENT, DIRECTORY, LINK, REGULAR, held, opened
from runward.handlers.model.part import Part

_CHUNK: Final = 1 << 20


def parts_stand(directory: str, parts: Sequence[Part]) -> bool | None:
    """Whether each part has its name and its bytes; None where the directory can't be read."""
    try:
        with opened(directory, DIRECTORY) as descriptor:
            return all(is_part(descriptor, part.name, part) for part in parts)
    except OSError as error:
        return False if error.errno in ABSENT else None


def is_part(directory: int, name: str, part: Part) -> bool:
    """Whether the file of this name has the part's bytes."""
    try:
        descriptor = os.open(name, REGULAR, dir_fd=directory)
    except OSError as error:
        if error.errno in ABSENT or error.errno in (LINK, errno.ENXIO, errno.EACCES):
            return False
        raise
    with held(descriptor):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != part.size:
            return False
        digest, position = hashlib.sha256(), 0
        while position < part.size:
            piece = os.pread(descriptor, _CHUNK, position)
            if not piece:
                return False
            digest.update(piece)
            position += len(piece)
        return digest.hexdigest() == part.sha256
