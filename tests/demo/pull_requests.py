"""A chain over pull requests, for the demo: review, tests, a person's word, then the merge of a real branch.

One pull request is approved and merged. The other one gets REQUEST_CHANGES, which leads to a comment instead: a git
note on its last commit.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

SETTINGS: Final = """
[actions.ci]
command = ["sh", "ci.sh", "{{ with.commit }}"]

[actions.merge]
command = ["git", "merge", "--quiet", "--no-ff", "-m", "Merge {{ with.branch }}", "--", "{{ with.commit }}"]

[actions.comment]
command = ["git", "notes", "--ref=review", "add", "-m", "{{ with.body }}", "{{ with.commit }}"]
"""

REVIEW: Final = """\
name: review-branch
command: ["python3", "review.py", "{{ with.commit }}"]
"""

REVIEWER: Final = '''\
"""Reads what a commit adds, and says what it thinks of it."""
import json, os, subprocess, sys

added = subprocess.run(
    ["git", "diff", f"main...{sys.argv[1]}"], cwd="../repository", check=True, capture_output=True, text=True
).stdout
findings = [
    {"severity": "high", "category": "correctness", "description": "a bare except hides every fault"}
] if "except:" in added else []
outcome = {
    "outcome_kind": "review_verdict",
    "verdict": "REQUEST_CHANGES" if findings else "APPROVE",
    "summary": findings[0]["description"] if findings else "it does what it says",
    "findings": findings,
}
with open(os.path.join(os.environ["RUNWARD_ARTIFACTS_DIR"], "outcome.json"), "w") as file:
    json.dump(outcome, file)
'''

CI: Final = """\
git clone --quiet --no-checkout ../repository "$RUNWARD_ARTIFACTS_DIR/checkout" || exit
cd "$RUNWARD_ARTIFACTS_DIR/checkout"
git checkout --quiet --detach "$1" || exit
if python3 -m unittest 2> ../tests.log; then passed=true; else passed=false; fi
printf '{"outcome_kind": "ci_result", "summary": "%s", "passed": %s, "tests_passed": %s}' \\
    "$(tail -n 1 ../tests.log)" $passed $passed > ../outcome.json
"""

CHAIN: Final = """\
name: pr-review
description: Review a pull request, test it, and merge it once a person agrees.
trigger: {event: pr.opened, filter: {base: main, draft: false}}
steps:
  - id: review
    skill: review-branch
    with: {commit: "{{ trigger.head_sha }}"}
    cwd: PLACE/reviewing
  - id: ci
    action: ci
    with: {commit: "{{ trigger.head_sha }}"}
    cwd: PLACE/reviewing
    condition: "{{ steps.review.outcome.verdict == 'APPROVE' }}"
  - id: merge
    action: merge
    with: {commit: "{{ trigger.head_sha }}", branch: "{{ trigger.head }}"}
    cwd: PLACE/repository
    condition: "{{ steps.ci.outcome.passed }}"
    requires_approval: true
  - id: comment
    action: comment
    with: {commit: "{{ trigger.head_sha }}", body: "{{ steps.review.outcome.summary }}"}
    cwd: PLACE/repository
    condition: "{{ steps.review.outcome.verdict == 'REQUEST_CHANGES' }}"
"""

GOOD: Final = ("subtraction", "\n\ndef subtract(a, b):\n    return a - b\n")
WRONG: Final = (
    "division",
    "\n\ndef divide(a, b):\n    try:\n        return a / b\n    except:\n        return 0\n",
)
WAITING: Final = ("multiplication", "\n\ndef multiply(a, b):\n    return a * b\n")
"""Its merge is left to the person who looks at the demo."""


class Demonstration(Protocol):
    """What the demo offers: a place with a repository, a daemon over it, and the `runward` command."""

    place: Path
    environment: dict[str, str]

    def runward(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]: ...

    def wait(self, holds: Callable[[], bool], what: str) -> None: ...


def prepare(demo: Demonstration, repository: Path) -> None:
    """Three branches in the repository, and the files that a person would write. The chain is defined later."""
    for name, added in (GOOD, WRONG, WAITING):
        _git(demo, repository, "switch", "--quiet", "--create", name, "main")
        with (repository / "library.py").open("a") as library:
            library.write(added)
        _git(demo, repository, "commit", "--quiet", "--all", "-m", f"A {name}")
    _git(demo, repository, "switch", "--quiet", "main")
    # An approval covers what is in the steps' directories, so nothing that the demo itself writes is beside them.
    reviewing = demo.place / "reviewing"
    reviewing.mkdir()
    (reviewing / "review.py").write_text(REVIEWER)
    (reviewing / "ci.sh").write_text(CI)
    (demo.place / "playbooks/review-branch.playbook.yaml").write_text(REVIEW)
    (demo.place / "pr-review.yaml").write_text(CHAIN.replace("PLACE", str(demo.place)))


def show(demo: Demonstration, repository: Path) -> list[str]:
    """Open both pull requests, one after the other; returns what did not come out as it should."""
    print("\nA chain: review, tests, approval, and the merge of a branch in a real repository:", flush=True)
    _shown(demo, "chain", "define", "pr-review.yaml")
    _opened(demo, 1070, GOOD[0])
    demo.wait(lambda: _waiting(demo) > 0, "the merge to wait for a person")
    _shown(demo, "chain", "approvals")
    _shown(demo, "chain", "approve", "@last", "--note", "looks right")
    merged = _shown_end(demo)
    _opened(demo, 1071, WRONG[0])
    commented = _shown_end(demo)
    print("\n$ git -C repository log --oneline --graph --notes=review --all", flush=True)
    _git(demo, repository, "log", "--oneline", "--graph", "--notes=review", "--all")
    return [*_differences("subtraction", merged, "merge"), *_differences("division", commented, "comment")]


def leave_one_waiting(demo: Demonstration) -> None:
    """Open a third pull request, whose merge waits for a person."""
    _opened(demo, 1072, WAITING[0])
    demo.wait(lambda: _waiting(demo) > 0, "the merge to wait for a person")


def _opened(demo: Demonstration, number: int, branch: str) -> None:
    repository = demo.place / "repository"
    commit = subprocess.check_output(["git", "rev-parse", branch], cwd=repository, text=True).strip()
    words = ("base=main", f"head={branch}", f"head_sha={commit}", "draft:=false", f"pr_number:={number}")
    runs = len(_runs(demo))
    _shown(demo, "event", "emit", "pr.opened", *words)
    demo.wait(lambda: len(_runs(demo)) > runs, f"the chain run of {branch}")


def _shown_end(demo: Demonstration) -> dict[str, object]:
    demo.wait(
        lambda: _newest(demo)["status"] not in ("running", "waiting_approval"), "the end of the chain run"
    )
    _shown(demo, "chain", "run", "show", "@last")
    _shown(demo, "why", str(_newest(demo)["chain_run_id"]))
    shown = demo.runward("chain", "run", "show", "@last", "--json", quiet=True)
    found: dict[str, object] = json.loads(shown.stdout)
    return found


def _differences(branch: str, run: dict[str, object], last: str) -> list[str]:
    steps = run["steps"]
    assert isinstance(steps, list)
    done = [step["id"] for step in steps if step["status"] == "completed"]
    skipped = [step["id"] for step in steps if step["status"] == "skipped"]
    wanted = ["review", "ci", "merge"] if last == "merge" else ["review", "comment"]
    if run["status"] == "completed" and done == wanted and len(done) + len(skipped) == len(steps):
        return []
    return [f"the chain run of {branch} is {run['status']}, with {done} done, not {wanted}"]


def _waiting(demo: Demonstration) -> int:
    return len(json.loads(demo.runward("chain", "approvals", "--json", quiet=True).stdout or "[]"))


def _newest(demo: Demonstration) -> dict[str, object]:
    return _runs(demo)[0]


def _runs(demo: Demonstration) -> list[dict[str, object]]:
    listed = demo.runward("chain", "runs", "--json", quiet=True)
    found: list[dict[str, object]] = json.loads(listed.stdout or "[]")
    return found


def _shown(demo: Demonstration, *arguments: str) -> None:
    words = " ".join(f'"{each}"' if " " in each else each for each in arguments)
    print(f"\n$ runward {words}", flush=True)
    demo.runward(*arguments)


def _git(demo: Demonstration, repository: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=repository, env=demo.environment, stderr=1, check=True)
