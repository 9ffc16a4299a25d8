"""A native run with one expected file, as its launcher leaves it: begun, and finished."""

import json
from pathlib import Path


def begin(base: Path, name: str) -> Path:
    directory = base / "runs" / name
    (directory / "artifacts").mkdir(parents=True)
    (directory / "artifacts" / "review.md").write_text("all is well\n")
    contract = {"expected": [{"id": "review", "path": "review.md", "required": True}]}
    run = {"schema": "runward-run-v1", "started_at": "2026-02-03T04:05:06Z", "contract": contract}
    (directory / "run.json").write_text(json.dumps(run))
    return directory


def finish(directory: Path) -> None:
    (directory / ".exit.tmp").write_text(json.dumps({"exit_code": 0, "finished_at": "2026-02-03T04:06:07Z"}))
    (directory / ".exit.tmp").rename(directory / "exit.json")
