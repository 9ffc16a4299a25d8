"""The interpreter inside: its program, libraries and standard library, copied if other users can't read them."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.sandbox.isolated import NoSandbox

INSIDE: Final = "/python"
"""The directory of all these files inside the sandbox."""

_COPIES: Final = Path("/var/cache/runward")
_SURVEY_S: Final = 30.0
_LEFT_OUT: Final = ("site-packages", "dist-packages", "test", "idlelib", "ensurepip", "turtledemo", "lib2to3")
"""Folders next to the standard library that are hidden from code."""

_SURVEY: Final = """
import ctypes, json, os, sys, sysconfig, warnings
warnings.simplefilter("ignore")
places = sysconfig.get_config_var("DESTSHARED"), os.path.join(sysconfig.get_path("platstdlib"), "lib-dynload")
directory = next((each for each in places if each and os.path.isdir(each)), None)
for file in sorted(os.listdir(directory)) if directory else ():
    name = file.split(".")[0]
    if not name.startswith(("_test", "_tkinter", "xx")):
        try:
            __import__(name)
        except ImportError:
            pass
class Loaded(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
names = []
kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Loaded), ctypes.c_size_t, ctypes.c_void_p)
def see(loaded, size, data):
    names.append(os.fsdecode(loaded.contents.name))
    return 0
ctypes.CDLL(None).dl_iterate_phdr(kind(see), None)
print(json.dumps({"modules": directory, "loaded": names}))
"""
"""Loads every module of the standard library that is compiled, and reports which libraries that loaded."""


class Interpreter(NamedTuple):
    """Files and directories of the machine, each with its place below `INSIDE`, and what starts it there.

    `hidden` are folders in these that stay empty inside.
    """

    places: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...]
    loader: str

    @property
    def command(self) -> tuple[str, ...]:
        """The beginning of its command line: the loader, so that no library has to be in the usual places."""
        libraries = f"{INSIDE}/so"
        return (f"{libraries}/{self.loader}", "--library-path", libraries, f"{INSIDE}/bin/{_NAME}")


_NAME: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"


@lru_cache(maxsize=2)
def interpreter(uid: int | None) -> Interpreter:
    """The interpreter that runs this, readable by the user `uid` (None: the daemon's own). Raises `NoSandbox`."""
    survey = _found()
    if uid is None or all(_is_public(Path(place)) for place, _ in survey.places):
        return survey
    return _copied(survey)


def _found() -> Interpreter:
    # The interpreter itself, not that of a virtual environment: the sandbox has no packages.
    program = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    library = os.path.realpath(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    try:
        survey = subprocess.run(
            (program, "-I", "-S", "-c", _SURVEY), capture_output=True, timeout=_SURVEY_S, check=True
        )
        answer = json.loads(survey.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise NoSandbox(f"{program} does not list its libraries: {error}", "reinstall Python") from error
    loaded = [name for name in answer["loaded"] if name.startswith("/")]
    modules = os.path.realpath(answer["modules"]) if answer["modules"] else library
    libraries = {Path(name).name: os.path.realpath(name) for name in loaded if not _is_below(name, modules)}
    loader = next((name for name in sorted(libraries) if name.startswith("ld-")), None)
    if loader is None:
        raise NoSandbox(f"{program} has no dynamic loader", "use an interpreter that is linked dynamically")
    inside = f"{sys.platlibdir}/{_NAME}"
    places = [(program, f"bin/{_NAME}"), (library, inside)]
    if not _is_below(modules, library):
        places.append((modules, f"{inside}/lib-dynload"))
    places += [(path, f"so/{name}") for name, path in sorted(libraries.items())]
    hidden = tuple(f"{inside}/{name}" for name in _LEFT_OUT if (Path(library) / name).is_dir())
    return Interpreter(tuple(places), hidden, loader)


def _is_below(path: str, directory: str) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(directory)}/")


def _is_public(path: Path) -> bool:
    """Whether every user may read it and enter all of its parent directories."""
    try:
        wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
        return all(each.stat().st_mode & stat.S_IXOTH for each in path.parents) and (
            path.stat().st_mode & wanted == wanted
        )
    except OSError:
        return False


def _copied(original: Interpreter) -> Interpreter:
    """A copy that everybody may read and only root may write, made once for each version of the files."""
    seal = hashlib.sha256()
    for place, inside in original.places:
        # The name follows from the files, so an upgrade of Python gets a copy of its own.
        seen = os.stat(place)
        seal.update(repr((place, inside, seen.st_ino, seen.st_size, seen.st_mtime_ns)).encode())
    copy = _COPIES / f"{_NAME}-{seal.hexdigest()[:16]}"
    try:
        _COPIES.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not copy.exists():
            _make(copy, original)
        ours = copy.lstat()
    except OSError as error:
        why = f"the interpreter is private, and can't be copied to {copy}: {error.strerror or error}"
        raise NoSandbox(
            why, f"make {_COPIES} writable, or run the daemon as another user than root"
        ) from error
    # It is run as another user, so nobody else may have put it there or be able to change it.
    if not stat.S_ISDIR(ours.st_mode) or ours.st_uid != os.geteuid() or ours.st_mode & 0o022:
        raise NoSandbox(f"others could change {copy}", "remove it; it is created again")
    places = tuple((str(copy / inside), inside) for _, inside in original.places)
    return Interpreter(places, (), original.loader)


def _make(copy: Path, original: Interpreter) -> None:
    """Make the copy whole or not at all."""
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=copy.parent))
    try:
        for place, inside in original.places:
            target = made / inside
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            if os.path.isdir(place):
                shutil.copytree(
                    place, target, ignore=_not_for_code, ignore_dangling_symlinks=True, dirs_exist_ok=True
                )
            else:
                shutil.copyfile(place, target)
                target.chmod(0o755)
        for path in _all(made):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        try:
            # Renamed when it is whole: a crash leaves nothing under the name that is used.
            made.rename(copy)
        except OSError:  # another process was first
            if not copy.exists():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _all(directory: Path) -> Iterator[Path]:
    yield directory
    yield from directory.rglob("*")


def _not_for_code(directory: str, names: list[str]) -> list[str]:
    """What is left out: some folders, and what is only needed to build against the interpreter."""
    return [name for name in names if name in _LEFT_OUT or name.startswith("config-")]
