"""What is installed is what is here: every file of the three packages, under its name, and nothing else."""

import configparser
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.project.repository import PACKAGES, ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of this checkout, built without isolation: nothing is fetched for it."""
    directory = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        timeout=100,
    )
    assert built.returncode == 0, built.stderr
    (path,) = directory.glob("*.whl")
    return zipfile.ZipFile(path)


def own_host() -> set[str]:
    """The packages' files, as an installation names them."""
    return {
        f"runward/{path.relative_to(ROOT)}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }


def test_the_wheel_has_every_file_of_the_three_packages_and_no_other(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    (page,) = [name for name in packed if name.endswith(".data/data/share/man/man1/runward.1")]
    assert packed - {page} == own_host()
    assert wheel.read(page) == (ROOT / "man/runward.1").read_bytes()
    assert len(packed) > 100


def test_the_wheel_has_what_is_no_code_too(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {f"runward/{package}/py.typed" for package in PACKAGES} <= names
    assert any(
        name.startswith("runward/daemon/store/migrations/") and name.endswith(".sql") for name in names
    )


def test_the_command_is_installed(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(wheel.read(name).decode())
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert dict(points["console_scripts"]) == scripts
    assert list(scripts) == ["runward"]


def test_what_is_unpacked_runs_by_itself(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import runward.daemon; from runward.daemon.store.schema import migrate; from pathlib import Path\n"
        "assert runward.daemon.__file__.startswith(sys.argv[1]), runward.daemon.__file__\n"
        "print(migrate(Path(sys.argv[1]) / 'new.db'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "site"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) >= 1


@pytest.mark.parametrize("package", PACKAGES)
def test_a_link_stands_for_each_package_in_a_checkout(package: str) -> None:
    link = ROOT / "src" / "runward" / package
    assert link.is_symlink()
    assert link.readlink() == Path("..", "..", package)
    assert link.resolve() == ROOT / package


def test_the_links_are_all_there_is_under_src() -> None:
    found = {path.name for path in (ROOT / "src" / "runward").iterdir() if path.name != "__pycache__"}
    assert found == set(PACKAGES)
