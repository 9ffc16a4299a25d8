"""Makes a store as an earlier version of this program made it: `python tests/golden/make.py COMMIT…`, in a clone.

Each commit's own program records the same three runs in /srv/runward, and what it wrote becomes `<schema version>.sql`
here, as text, so that a person can read what changed. Run it when a migration is added, with the last commit before
that: the new one is then held against the old one by `tests/daemon/store/test_upgrades.py` for good.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PLACE: Final = Path("/srv/runward")
"""Where the runs lie that the stores tell of: the same for all, and nobody's own."""

CONTRACT: Final = {
    "expected": [
        {"id": name, "path": f"{name}.md", "required": True, "description": "", "source": "playbook"}
        for name in ("report", "review")
    ]
}
MOMENT: Final = "2026-02-03T04:05:06Z"
ENDED: Final = "2026-02-03T04:06:07Z"


def main(commits: list[str]) -> None:
    """Writes one file a commit."""
    for commit in commits:
        with tempfile.TemporaryDirectory() as scratch:
            program = check_out(commit, Path(scratch))
            shutil.rmtree(PLACE, ignore_errors=True)
            furnish()
            environment = {
                **os.environ,
                "PYTHONPATH": str(program),
                "RUNWARD_CONFIG": str(PLACE / "runward.toml"),
            }
            arguments = "from runward.daemon.cli import main; main()", "daemon", "--once", "--quiet"
            subprocess.run([sys.executable, "-c", *arguments], env=environment, cwd=PLACE, check=True)
        dump(PLACE / "state" / "runward.db")
        shutil.rmtree(PLACE)


def check_out(commit: str, scratch: Path) -> Path:
    """The packages of a commit, importable from the returned directory."""
    archive = subprocess.run(["git", "archive", commit], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", scratch], input=archive, check=True)
    (scratch / "importable" / "runward").mkdir(parents=True)
    for package in ("config", "handlers", "daemon"):
        (scratch / "importable" / "runward" / package).symlink_to(scratch / package)
    return scratch / "importable"


def furnish() -> None:
    """One run that delivered, one that left its report out, one that goes on."""
    PLACE.mkdir(parents=True)
    settings = 'state_dir = "state"\nplaybooks = []\nagents = []\n[[roots]]\nname = "runs"\npath = "runs"\n'
    (PLACE / "runward.toml").write_text(settings)
    for name, left in (("delivers", ("report", "review")), ("lacks", ("review",)), ("goes-on", ())):
        artifacts = PLACE / "runs" / name / "artifacts"
        artifacts.mkdir(parents=True)
        run = {"schema": "runward-run-v1", "session_id": name, "started_at": MOMENT, "contract": CONTRACT}
        (artifacts.parent / "run.json").write_text(json.dumps(run))
        for each in left:
            (artifacts / f"{each}.md").write_text("all is well\n")
        if left:
            (artifacts.parent / "exit.json").write_text(json.dumps({"exit_code": 0, "finished_at": ENDED}))


def dump(store: Path) -> None:
    """The store as text, without the name of this machine's boot."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        (version,) = connection.execute("pragma user_version").fetchone()
        columns = [row[1] for row in connection.execute("pragma table_info(daemon)")]
        for column in {"boot_id", "clock_boot_id"}.intersection(columns):
            connection.execute(f"update daemon set {column} = 'a-boot'")
        lines = [*connection.iterdump(), f"PRAGMA user_version = {version};"]
    (HERE / f"{version:04d}.sql").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
