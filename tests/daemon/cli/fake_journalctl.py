"""What journalctl(1) does with the options that Runward gives it, over entries in a file: $FAKE_JOURNAL.

Called as a program. A file `$FAKE_JOURNAL.refuses` has it refuse with what stands there.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_FLAGS = (
    "--no-pager",
    "--quiet",
    "--all",
    "--output=json",
    "--output-fields=RUNWARD_JSON",
    "--no-tail",
    "--follow",
)


def main(words: list[str]) -> None:
    journal = Path(os.environ["FAKE_JOURNAL"])
    refusal = journal.with_name(f"{journal.name}.refuses")
    if refusal.exists():
        sys.exit(refusal.read_text())
    options = {}
    alternatives: list[list[tuple[str, str]]] = [[]]
    for word in words:
        if word == "+":
            alternatives.append([])
        elif word.startswith("--"):
            name, _, value = word.partition("=")
            assert word in _FLAGS or name in ("--priority", "--since", "--after-cursor", "--lines"), word
            options[name] = value
        else:
            name, _, value = word.partition("=")
            alternatives[-1].append((name, value))
    found: Iterator[dict[str, list[str]]] = (
        entry
        for entry in _entries(journal, "--follow" in options)
        if _is_chosen(entry, options) and any(_has(entry, matches) for matches in alternatives)
    )
    if "--lines" in options:
        count = int(options["--lines"])
        found = iter(list(found)[-count:] if count else [])
    for entry in found:
        kept = {
            name: values[0]
            for name, values in entry.items()
            if name.startswith("__") or name == "RUNWARD_JSON"
        }
        print(json.dumps(kept), flush=True)


def _entries(journal: Path, follows: bool) -> Iterator[dict[str, list[str]]]:
    reader = os.getppid()  # the real one ends when its output is closed
    with journal.open() as file:
        while True:
            line = file.readline()
            if line:
                yield json.loads(line)
            elif follows and os.getppid() == reader:
                time.sleep(0.02)
            else:
                return


def _is_chosen(entry: dict[str, list[str]], options: dict[str, str]) -> bool:
    at = float(entry["__REALTIME_TIMESTAMP"][0]) / 1e6
    if at < float(options.get("--since", "@0").removeprefix("@")):
        return False
    if int(entry["__CURSOR"][0]) <= int(options.get("--after-cursor", "-1")):
        return False
    return int(entry["PRIORITY"][0]) <= int(options.get("--priority", "7"))


def _has(entry: dict[str, list[str]], matches: list[tuple[str, str]]) -> bool:
    return all(value in entry.get(name, []) for name, value in matches)


if __name__ == "__main__":
    main(sys.argv[1:])
