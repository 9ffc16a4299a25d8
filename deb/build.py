"""Builds the Debian package from the wheel in the directory that is named, and puts it there: `make deb` names `dist/`.

It has an environment of its own in `/opt/runward`, with all that Runward needs but Python itself. Compiled libraries are for one
version of Python, so there is a package for each; the one for the machine's Python is built unless DEB_PYTHON names another.
"""

import gzip
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runward.daemon import __version__
from runward.daemon.units.rendering import USER, render

ROOT: Final = Path(__file__).parents[1]
HOME: Final = "/opt/runward"
PROGRAM: Final = "/usr/bin/runward"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS: Final = {
    "bash": "/usr/share/bash-completion/completions/runward",
    "zsh": "/usr/share/zsh/vendor-completions/_runward",
    "fish": "/usr/share/fish/vendor_completions.d/runward.fish",
}
START: Final = f"#!{HOME}/bin/python\nfrom runward.daemon.cli import main\n\nmain()\n"


def main(directory: str) -> None:
    """Build it there."""
    dist, work = Path(directory).resolve(), Path(directory).resolve() / ".deb"
    python = os.path.realpath(os.environ.get("DEB_PYTHON", "/usr/bin/python3"))
    os.umask(0o022)  # every user may read it
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    make_environment(work / "environment", python, dist)
    described = work / "nfpm.yaml"
    described.write_text(json.dumps(description(work, python)))  # JSON is YAML
    _run("nfpm", "package", "--config", described, "--packager", "deb", "--target", dist)
    shutil.rmtree(work)


def make_environment(place: Path, python: str, dist: Path) -> None:
    """A virtual environment that works once it lies in `HOME`, with the wheel of this version."""
    _run(python, "-m", "venv", "--without-pip", "--symlinks", place)
    (wheel,) = dist.glob(f"runward-{__version__}-*.whl")
    # The file, and not the name: an index may have a distribution of this name that is another one. With the extras, which
    # nobody but root could add.
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "--python",
        place / "bin/python",
    )
    _run(*pip, "install", "--no-compile", "--no-warn-script-location", f"{wheel}[mcp,sign]")
    # Whatever names the place where it is built: the programs, how the environment was made, and where the wheel was.
    for program in (place / "bin").iterdir():
        program.unlink()
    (place / "bin" / "python").symlink_to(python)
    start = place / "bin" / "runward"
    start.write_text(START)
    start.chmod(0o755)
    (place / "pyvenv.cfg").write_text(
        f"home = {os.path.dirname(python)}\ninclude-system-site-packages = false\n"
    )
    (origin,) = place.glob("lib/*/site-packages/runward-*.dist-info/direct_url.json")
    origin.unlink()
    # Nobody but root can write there, so each start would compile everything again. What is compiled is not held against
    # the time of its source: nobody changes one without the other.
    _run(
        python,
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        place,
        "-p",
        HOME,
        place / "lib",
    )


def _run(*words: str | Path) -> None:
    subprocess.run(words, check=True)


def description(work: Path, python: str) -> dict[str, object]:
    """What nfpm needs to know."""
    version = os.path.basename(python).removeprefix("python")
    return {
        "name": "runward",
        "arch": ARCHITECTURES[platform.machine()],
        "platform": "linux",
        "version": f"{__version__}+py{version}",
        "version_schema": "none",
        "section": "devel",
        "maintainer": "The Runward maintainers <maintainers@runward.invalid>",
        "description": "Knows whether an agent run really delivered\n It watches the directories of coding agents' runs, judges them by their contract, and starts next steps.",
        "license": "Apache-2.0",
        "depends": [f"python{version}"],
        "recommends": ["bubblewrap", "git", "libseccomp2"],
        "deb": {"compression": "zstd"},
        "scripts": {"postinstall": str(ROOT / "deb" / "postinst")},
        "contents": list(contents(work)),
    }


def contents(work: Path) -> Iterator[dict[str, object]]:
    """Each file of the package."""
    yield {"src": str(work / "environment"), "dst": HOME, "type": "tree"}
    yield {"src": f"{HOME}/bin/runward", "dst": PROGRAM, "type": "symlink"}
    units = [*(ROOT / "systemd" / "system").iterdir(), *(ROOT / "systemd" / "sysusers.d").iterdir()]
    for unit in units:
        place = "/usr/lib/sysusers.d" if unit.parent.name == "sysusers.d" else "/usr/lib/systemd/system"
        yield _file(unit, f"{place}/{unit.name}")
    users = render(USER, f"{PROGRAM} daemon", "%h/.local/state/runward")
    yield _file(_made(work / "user.service", users.encode()), f"/usr/lib/systemd/user/{USER.name}")
    page = gzip.compress((ROOT / "man" / "runward.1").read_bytes(), 9, mtime=0)
    yield _file(_made(work / "runward.1.gz", page), "/usr/share/man/man1/runward.1.gz")
    for shell, place in COMPLETIONS.items():
        words = [sys.executable, "-c", "from runward.daemon.cli import main; main()", "completion", shell]
        script = subprocess.run(words, capture_output=True, check=True).stdout
        yield _file(_made(work / f"completion.{shell}", script), place)
    yield _file(ROOT / "LICENSE", "/usr/share/doc/runward/copyright")


def _made(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _file(path: Path, place: str) -> dict[str, object]:
    return {"src": str(path), "dst": place, "file_info": {"mode": 0o644, "owner": "root", "group": "root"}}


if __name__ == "__main__":
    main(*sys.argv[1:])
