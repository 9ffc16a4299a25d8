"""The directory of a zip file that a run left. Nothing in the file is unpacked, and its directory is bounded."""

import os
import zipfile
from typing import Final

from runward.handlers.ctcp.documents import Entry, ZipDirectory

LARGEST_DIRECTORY: Final = 8 << 20
"""Bytes of a directory that is read: 10,000 entries with long names have less."""


class _TooLarge(Exception):
    """The directory has more bytes than are read."""


class _File:
    """A file for `zipfile` to read from, which reads at most a directory's bytes at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0
        self._size = os.fstat(descriptor).st_size

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError("seeks before the beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int = -1) -> bytes:
        count = max(0, self._size - self._at) if count < 0 else count
        if count > LARGEST_DIRECTORY:
            raise _TooLarge
        found = os.pread(self._descriptor, count, self._at)
        self._at += len(found)
        return found


def read_zip_directory(descriptor: int) -> ZipDirectory:
    """The entries of the zip file with this descriptor, or why there are none."""
    file = _File(descriptor)
    try:
        with zipfile.ZipFile(file) as found:
            entries = tuple(Entry(each.orig_filename, each.file_size) for each in found.infolist())
    except _TooLarge:
        return ZipDirectory(is_too_large=True)
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, ValueError) as error:
        return ZipDirectory(problem=f"is not a zip file: {error}")
    except OSError as error:
        if error.errno is not None:
            raise
        return ZipDirectory(problem="is not a zip file: its directory is not where it says")
    return ZipDirectory(entries)
