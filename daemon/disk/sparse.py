"""Files with holes in them: a run can make one that is larger than any disk, and nobody could ever read it through."""

import errno
import os


def data_after(descriptor: int, offset: int) -> int:
    """The position of the next written bytes at or after `offset`; the file's end if there are none."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return max(offset, os.fstat(descriptor).st_size)


def is_empty(piece: bytes) -> bool:
    """Whether bytes that were read may be those of a hole."""
    return not piece.strip(b"\0")
