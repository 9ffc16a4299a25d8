"""What `make dist` and `make deb` build can be installed, and runs there. The image is built where an engine can."""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from tests.project.repository import PACKAGES, ROOT
from tests.waiting import wait_for

from runward.daemon import __version__

pytestmark = pytest.mark.timeout(
    600
)  # an index may be slow, and so is what packs for several workers at once

STORY = """\
set -e
export RUNWARD_STATE_DIR="$HOME/state"
runward --version
runward run --name first -- sh -c 'echo hello'
runward daemon --once --quiet
runward session list --json
runward status >/dev/null || test $? = 3
"""
"""The first commands after an installation."""


def ended(words: Sequence[str | Path], environment: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    """What a program that succeeds prints on stdout."""
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def dist(directory: Path, source: Path = ROOT) -> Path:
    """A directory with the wheel and the sdist, as `make dist` makes them."""
    ended([sys.executable, "-m", "hatchling", "build", "-d", directory], cwd=source)
    return directory


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dist(tmp_path_factory.mktemp("dist"))


def it_works(programs: Path, home: Path) -> None:
    """The story of the first day, with the `runward` of this directory."""
    said = ended(["sh", "-c", STORY], {"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin"}, home)
    told = said.partition("\n")
    assert told[0] == f"runward {__version__}"
    sessions = json.loads(said[said.index("[") :])
    assert [(each["session_id"], each["status"]) for each in sessions] == [("first", "completed")]


def fresh(place: Path) -> list[str | Path]:
    """An environment with nothing in it; returns the words that install into it."""
    ended([sys.executable, "-m", "venv", "--without-pip", place])
    return [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        place / "bin/python",
        "install",
    ]


@pytest.mark.prove
def test_the_wheel_works_in_a_fresh_environment(built: Path, tmp_path: Path) -> None:
    install = fresh(tmp_path / "env")
    (wheel,) = built.glob("*.whl")
    ended([*install, "--no-deps", "--no-index", wheel])
    # What it depends on is taken from here, so that nothing is fetched.
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    (site / "here.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    it_works(tmp_path / "env" / "bin", tmp_path)


@pytest.mark.longest
@pytest.mark.prove
@pytest.mark.usefixtures("reachable_index")
def test_the_wheel_brings_all_that_it_needs(built: Path, tmp_path: Path) -> None:
    install = fresh(tmp_path / "env")
    (wheel,) = built.glob("*.whl")
    ended([*install, wheel])
    it_works(tmp_path / "env" / "bin", tmp_path)


@pytest.mark.prove
@pytest.mark.usefixtures("reachable_index")
def test_uv_installs_it_as_a_tool(built: Path, tmp_path: Path) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if uv is None:
        pytest.skip("there is no uv")
    (wheel,) = built.glob("*.whl")
    places = {
        "UV_TOOL_DIR": tmp_path / "tools",
        "UV_TOOL_BIN_DIR": tmp_path / "bin",
        "UV_CACHE_DIR": tmp_path / "cache",
    }
    environment = os.environ | {name: str(place) for name, place in places.items()}
    ended([uv, "tool", "install", "--python", sys.executable, wheel], environment)
    it_works(tmp_path / "bin", tmp_path)


@pytest.mark.prove
def test_the_same_commit_gives_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for name, mask in (("one", "022"), ("two", "077")):
        clone = tmp_path / name / "clone"
        ended(["sh", "-c", 'umask "$1"; git clone -q "$2" "$3"', "sh", mask, ROOT, clone])
        made = sorted(dist(tmp_path / name / "dist", clone).iterdir())
        digests.append({each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in made})
    assert digests[0] == digests[1]
    assert sorted(Path(name).suffix for name in digests[0]) == [".gz", ".whl"]


@pytest.mark.prove
@pytest.mark.usefixtures("reachable_index")
def test_the_wheel_can_be_made_from_the_sdist(built: Path, tmp_path: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    ended([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, source])
    (ours,), (theirs,) = built.glob("*.whl"), tmp_path.glob("*.whl")
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.fixture(scope="module")
def deb(reachable_index: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built once for all workers."""
    paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for program in ("nfpm", "dpkg-deb", "/usr/bin/python3"):
        if shutil.which(program, path=paths) is None:
            pytest.skip(f"there is no {program}")
    is_alone = "PYTEST_XDIST_WORKER" not in os.environ
    base = tmp_path_factory.getbasetemp()
    directory = (base if is_alone else base.parent) / "deb"
    with open(f"{directory}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(directory.glob("*.deb")):
            shutil.rmtree(directory, ignore_errors=True)  # another worker's build failed
            dist(directory)
            ended([sys.executable, ROOT / "deb/build.py", directory], {**os.environ, "PATH": paths})
    kinds = [each.suffix for each in directory.iterdir()]
    assert sorted(kinds) == [".deb", ".gz", ".whl"], "nothing else is left there"
    return next(directory.glob("*.deb"))


@pytest.fixture(scope="module")
def unpacked(deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory with the package's files, and nothing else."""
    root = tmp_path_factory.mktemp("root")
    ended(["dpkg-deb", "-x", deb, root])
    return root


@pytest.mark.longest
@pytest.mark.prove
def test_the_deb_starts_in_a_root_of_its_own(unpacked: Path, tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("there is no bubblewrap")
    own = [
        f"--symlink usr/{name} /{name}" for name in ("bin", "lib", "lib64") if Path(f"/{name}").is_symlink()
    ]
    words = f"bwrap --unshare-all --die-with-parent --ro-bind /usr /usr {' '.join(own)} --proc /proc --dev /dev --tmpfs /tmp"
    sandbox: list[str | Path] = [
        *words.split(),
        "--ro-bind",
        unpacked / "opt",
        "/opt",
        "--bind",
        tmp_path,
        "/home/user",
    ]
    if subprocess.run([*sandbox, "true"], capture_output=True, check=False, timeout=60).returncode != 0:
        pytest.skip("bubblewrap can't make a sandbox here")
    variables = ["env", "-i", "HOME=/home/user", "PATH=/opt/runward/bin:/usr/bin"]
    said = ended([*sandbox, *variables, "sh", "-c", STORY])
    assert said.startswith(f"runward {__version__}\n")
    assert '"status": "completed"' in said
    for extra in ("mcp", "cryptography", "coincurve"):
        ended([*sandbox, "/opt/runward/bin/python", "-c", f"import {extra}"])


@pytest.mark.longest
@pytest.mark.prove
def test_the_deb_has_units_page_and_completions_and_enables_nothing(deb: Path, unpacked: Path) -> None:
    files = {f"/{path.relative_to(unpacked)}" for path in unpacked.rglob("*") if not path.is_dir()}
    others = {each for each in files if not each.startswith("/opt/runward/")}
    assert others == {
        "/usr/bin/runward",
        "/usr/lib/systemd/system/runward.service",
        "/usr/lib/systemd/system/runward@.service",
        "/usr/lib/systemd/user/runward.service",
        "/usr/lib/sysusers.d/runward.conf",
        "/usr/share/bash-completion/completions/runward",
        "/usr/share/doc/runward/copyright",
        "/usr/share/fish/vendor_completions.d/runward.fish",
        "/usr/share/man/man1/runward.1.gz",
        "/usr/share/zsh/vendor-completions/_runward",
    }
    assert os.readlink(unpacked / "usr/bin/runward") == "/opt/runward/bin/runward"
    for unit in (each for each in others if each.endswith(".service")):
        assert "\nExecStart=/usr/bin/runward daemon\n" in (unpacked / unit[1:]).read_text()
    for path in unpacked.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert str(deb.parent).encode() not in path.read_bytes(), f"{path} names where it was built"
            assert path.stat().st_mode & 0o044 == 0o044, f"not everybody may read {path}"
    told = ended(["dpkg-deb", "--field", deb, "Version", "Depends"])
    version = os.path.basename(os.path.realpath("/usr/bin/python3")).removeprefix("python")
    assert told == f"Version: {__version__}+py{version}\nDepends: python{version}\n"
    script = ended(["dpkg-deb", "--info", deb, "postinst"])
    assert "enable" not in "".join(line for line in script.splitlines() if not line.startswith("#"))
    assert " start" not in script.replace("starts", "")


@pytest.mark.longest
@pytest.mark.prove
@pytest.mark.skipif(os.geteuid() != 0, reason="dpkg installs only as root")
def test_dpkg_unpacks_and_removes_the_deb(deb: Path, tmp_path: Path) -> None:
    for directory in ("var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").touch()
    dpkg = ["dpkg", f"--root={tmp_path}", "--force-depends"]
    ended([*dpkg, "--unpack", deb])
    assert (tmp_path / "opt/runward/bin/runward").exists()
    ended([*dpkg, "--remove", "runward"])
    left = [
        each
        for each in tmp_path.rglob("*")
        if not each.is_relative_to(tmp_path / "var") and not each.is_dir()
    ]
    assert left == []


@pytest.mark.longest
@pytest.mark.prove
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes users")
def test_after_its_installation_there_is_the_user_of_the_machines_unit(
    unpacked: Path, tmp_path: Path
) -> None:
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("there is no systemd-sysusers")
    shutil.copytree(unpacked / "usr/lib/sysusers.d", tmp_path / "usr/lib/sysusers.d")
    (tmp_path / "etc").mkdir()
    ended(["sh", ROOT / "deb/postinst", "configure"], {**os.environ, "DPKG_ROOT": str(tmp_path)})
    users = (tmp_path / "etc/passwd").read_text()
    assert re.search("^runward:.*:/var/lib/runward:", users, re.MULTILINE)
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert made <= {"usr/lib/sysusers.d/runward.conf"} | {f"etc/{name}" for name in _ACCOUNTS}


_ACCOUNTS = {"passwd", "passwd-", "group", "group-", "shadow", "shadow-", "gshadow", "gshadow-", ".pwd.lock"}


IMAGE = "runward-test"


@pytest.mark.prove
def test_the_image_is_built_and_its_daemon_is_well() -> None:
    engine = next((each for each in ("podman", "docker") if shutil.which(each)), None)
    if engine is None:
        pytest.skip("there is no container engine")
    asked = subprocess.run([engine, "info"], capture_output=True, text=True, check=False, timeout=60)
    if asked.returncode != 0:
        pytest.skip(f"{engine} has no engine that answers: {asked.stderr.strip().splitlines()[-1]}")
    pulled = subprocess.run(
        [engine, "pull", _base()], capture_output=True, text=True, check=False, timeout=300
    )
    if pulled.returncode != 0:
        pytest.skip(f"{_base()} can't be had: {pulled.stderr.strip().splitlines()[-1]}")
    ended([engine, "build", "-t", IMAGE, "-f", "Containerfile", "."])
    container = ended([engine, "run", "--init", "-d", IMAGE]).strip()
    try:
        wait_for(
            lambda: (
                not subprocess.run(
                    [engine, "exec", container, "runward", "status"], capture_output=True, check=False
                ).returncode
            ),
            "a daemon that is well",
        )
        assert ended([engine, "exec", container, "id", "-u"]) == "1000\n"
        ended([engine, "exec", container, "runward", "run", "--", "true"])
    finally:
        ended([engine, "rm", "-f", container])


def _instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Containerfile").read_text().replace("\\\n", "")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def _base() -> str:
    return next(words.split()[0] for name, words in _instructions() if name == "FROM")


def test_the_image_has_all_of_the_wheel_and_runs_as_nobody_special() -> None:
    instructions = _instructions()
    copied = " ".join(
        words for name, words in instructions if name == "COPY" and not words.startswith("--from")
    )
    named = {name for name in copied.split() if name != "./"}
    assert {*PACKAGES, "man", "pyproject.toml", "README.md", "LICENSE"} == named
    assert all((ROOT / name).exists() for name in named)
    last = dict(instructions)
    assert last["USER"] == "1000"
    assert last["HEALTHCHECK"].endswith('CMD ["runward", "status"]')
    assert len({words.split()[0] for name, words in instructions if name == "FROM"}) == 1


def test_publishing_needs_a_tag_and_no_password() -> None:
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
    # YAML 1.1 takes the word for a truth.
    assert release[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}}
    assert release["permissions"] == {}
    jobs = release["jobs"]
    assert jobs["pypi"]["permissions"] == {"id-token": "write"}
    assert jobs["pypi"]["environment"] == "pypi"
    assert [name for name, job in jobs.items() if "id-token" in job["permissions"]] == ["pypi"]
    text = json.dumps(release)
    assert "secrets." not in text
    for job in jobs.values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "a name could be a command there"
            for target in re.findall(r"make (\w+)", step.get("run", "")):
                assert (
                    re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
                    or target == "python3"
                )


def test_no_page_names_a_package_that_nobody_has_published() -> None:
    """Until there is a release: anybody can take a name that is free."""
    told = [(ROOT / "README.md").read_text(), *(path.read_text() for path in (ROOT / "docs").glob("*.md"))]
    wrong = re.compile(r"(?:pipx?|uv tool|uv pip|apt(?:-get)?) install (?:-\S+ )*['\"]?runward\b|ghcr\.io/")
    assert [found for text in told for found in wrong.findall(text)] == []
