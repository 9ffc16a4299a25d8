"""`runward exchange invoke` and `submit`: actions by their intents."""

import sys
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exchange.acting import Acting, act
from runward.daemon.cli.exchange.arguments import argument_of
from runward.daemon.cli.exchange.artifact import AS, AS_JSON, NO_WAIT, REASON
from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.shell.given_file import content_of
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import print_json_line
from runward.handlers.exchange.intent import (
    DEFAULT_METHOD,
    ActionResult,
    NotAnIntent,
    as_intent,
    intent_to_json,
    parse_intent,
    result_to_json,
)

MOST_INTENTS: Final = 256 << 20
"""Bytes of a file with intents."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("identifier", metavar="ID", shell_complete=completing.shared_artifacts)
@click.argument("words", nargs=-1, metavar="[METHOD] [ARG]…")
@AS
@click.option("--method", metavar="METHOD", help="The method, if the first word is an ARG.")
@click.option("--budget", type=click.IntRange(min=0), metavar="N", help="The most scrip that it may cost.")
@click.option("--delegate", is_flag=True, help="Let code of other owners act on the caller's behalf.")
@REASON
@NO_WAIT
@AS_JSON
@click.pass_context
def invoke(
    context: click.Context,
    identifier: str,
    words: tuple[str, ...],
    principal: str,
    method: str | None,
    budget: int | None,
    delegate: bool,
    reason: str,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Invoke a method of an artifact as a principal.

    If the first word after ID looks like a name, it is the method; otherwise the method is `run`. An ARG is text;
    `:=JSON` is JSON.

    \b
    Example:
      runward exchange invoke genesis_ledger balance reader --as reader
      runward exchange invoke counter --as reader "three short words"
    """
    named, guessed = method, None
    if named is None:
        guessed = words[0] if words and words[0].isidentifier() else None
        named = DEFAULT_METHOD if guessed is None else guessed
        words = words if guessed is None else words[1:]
    intent: dict[str, JsonValue] = {
        "action_type": "invoke_artifact",
        "artifact_id": identifier,
        "method": named,
        "args": [argument_of(each) for each in words],
        "reasoning": reason,
    }
    if budget is not None:
        intent["budget"] = budget
    if delegate:
        intent["delegate"] = True
    hint = (
        None if guessed is None else f"{guessed} was taken as the method: if it is an ARG, add --method run"
    )
    act(context, principal, intent, wait=not no_wait, as_json=as_json, if_not_found=hint)


@click.command()
@click.argument("file", type=NamedPath(readable=False))
@click.option(
    "--as",
    "principal",
    metavar="P",
    shell_complete=completing.principals,
    help="The principal who acts (default: the principal_id of each line).",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and print each intent as it was understood.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (always on).")
@click.pass_context
def submit(context: click.Context, file: str, principal: str | None, dry_run: bool, as_json: bool) -> None:
    """Carry out the intents of FILE, one after another.

    FILE (`-`: stdin) has one JSON object per line.

    Prints one ActionResult per line. A failed action does not stop the others. Exit code 1: at least one failed.

    \b
    Example:
      runward exchange submit intents.jsonl --as writer
      runward exchange submit intents.jsonl --dry-run
    """
    acting = Acting(settings_in_force(context))
    if not dry_run:
        acting.refuse_without_daemon()
    lines = _lines(file)
    if dry_run:
        tried = [_tried(line) for line in lines]
        sys.exit(GOOD if all(tried) else NOT_SO)
    is_good = True
    for line in lines:
        is_good = _carried_out(acting, line, principal) and is_good
    sys.exit(GOOD if is_good else NOT_SO)


def _lines(file: str) -> list[bytes]:
    content = content_of(file, MOST_INTENTS)
    lines = content.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def _tried(line: bytes) -> bool:
    try:
        intent = parse_intent(line)
    except NotAnIntent as error:
        print_json_line({"error": str(error)})
        return False
    print_json_line({"intent": intent_to_json(intent)})
    return True


def _carried_out(acting: Acting, line: bytes, principal: str | None) -> bool:
    try:
        intent = parse_intent(line)
    except NotAnIntent as error:
        return _refused(str(error), "invalid_argument")
    who = principal or intent.principal_id
    if who is None:
        return _refused("the intent names no principal_id: give --as", "invalid_argument")
    if intent.principal_id not in (None, who):
        return _refused(f"the intent names the principal {intent.principal_id}, not {who}", "not_authorized")
    result = acting.result(acting.send(who, as_intent(intent)))
    print_json_line(result)
    return result["success"] is True


def _refused(message: str, code: str) -> bool:
    print_json_line(result_to_json(ActionResult(False, message, error_code=code)))
    return False
