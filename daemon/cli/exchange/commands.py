"""`runward exchange`: what agents share, how their code runs; actions by their intents, what was done and what was paid."""

import sys
import time
from typing import Final

import click

from runward.config.exchange import LONGEST_TIMEOUT_S
from runward.config.intent import DEFAULT_METHOD, NotAnIntent
from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.cli.commands import Group
from runward.daemon.cli.exchange.acting import AS, Act, Acting, acts, argument_of, text_of
from runward.daemon.cli.exchange.artifact import artifact
from runward.daemon.cli.exchange.contract import contract
from runward.daemon.cli.exchange.principal import mint, principal, token
from runward.daemon.cli.exits import GOOD, NOT_SO
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import own_settings, pass_settings, store_to_read
from runward.daemon.cli.terminal.options import (
    Length,
    NamedPath,
    columns_option,
    content_of,
    filter_option,
    json_option,
    limit_option,
    listed,
    no_pager_option,
    since_option,
    wide_option,
)
from runward.daemon.cli.terminal.output import (
    align,
    coloured,
    is_screen,
    note,
    print_json,
    print_json_line,
    print_table,
    print_text,
    printing,
    safe,
    to_stderr,
    width,
)
from runward.daemon.store.tables.actions import ActionRow, WantedActions, actions, as_json, latest_actions
from runward.daemon.store.tables.ledger import LedgerRow, ledger_entries, scrip_in_circulation, wrong_balances
from runward.daemon.views.exchange import action_as_json, ledger_as_json, shown_result
from runward.daemon.views.text import local
from runward.handlers.exchange.intent import (
    ActionResult,
    as_intent,
    intent_to_json,
    parse_intent,
    result_to_json,
)
from runward.handlers.model.exchange import MILLIONTHS, SCRIP

_PERIOD = 0.25


@click.group(cls=Group)
def exchange() -> None:
    """Share artifacts between agents, pay for them, and run their code.

    \b
    Example:
      runward exchange execute try.py
    """


exchange.add_command(artifact)
exchange.add_command(contract)
exchange.add_command(principal)
exchange.add_command(mint)
exchange.add_command(token)


_LEDGER: Final = ("WHEN", "FROM", "TO", "AMOUNT", "RESOURCE", "REASON")


@exchange.command()
@filter_option("--principal", "P", completing.principals, "its entries")
@since_option
@click.option("--check", is_flag=True, help="Verify all sums. Exit code 1: something does not add up.")
@listed(_LEDGER)
@json_option()
@pass_settings
def ledger(
    settings: Settings, principal: str | None, since: float | None, check: bool, as_json: bool
) -> None:
    """List the entries of the ledger, the oldest first.

    \b
    Example:
      runward exchange ledger --principal writer
      runward exchange ledger --check
    """
    with store_to_read(settings) as connection:
        entries = ledger_entries(connection, principal, since)
        wrong = list(wrong_balances(connection)) if check else []
        circulating = scrip_in_circulation(connection)
    if check:
        if as_json:
            print_json({"entries": len(entries), "scrip": circulating, "problems": [*wrong]})
        else:
            for each in wrong:
                print_text(safe(each))
            if not wrong:
                print_text(f"{len(entries)} entries add up; {circulating} scrip are in circulation")
        sys.exit(NOT_SO if wrong else GOOD)
    if as_json:
        print_json(ledger_as_json(entries))
    elif not entries:
        print_text("no entries")
    else:
        print_table(_LEDGER, [_entry(each) for each in entries])


def _entry(row: LedgerRow) -> tuple[str, ...]:
    amount = str(row.amount) if row.resource == SCRIP else f"{row.amount / MILLIONTHS:g}"
    return (
        local(row.at),
        safe(row.giver),
        safe(row.taker),
        amount,
        safe(row.resource),
        safe(row.reason),
    )


_LOG: Final = ("WHEN", "WHO", "WHAT", "RESULT", "WHY")


@exchange.command()
@filter_option("--principal", "P", completing.principals, "its actions")
@filter_option("--artifact", "ID", completing.shared_artifacts, "actions on this artifact")
@since_option
@limit_option
@click.option("-f", "--follow", is_flag=True, help="Print new actions as they come.")
@no_pager_option
@columns_option(*_LOG)
@wide_option
@json_option("Print JSON: a list; with -f, one object per line.")
@pass_settings
def log(
    settings: Settings,
    principal: str | None,
    artifact: str | None,
    since: float | None,
    limit: int,
    follow: bool,
    as_json: bool,
) -> None:
    """List the actions with reasoning and result, the newest last.

    \b
    Example:
      runward exchange log -f
    """
    wanted = WantedActions(principal, artifact, since, limit=limit or -1)
    with store_to_read(settings) as connection:
        taken = latest_actions(connection, wanted)
    after = 0
    numbers = [_LOG.index(head) for head in printing("heads") or _LOG]
    widest = [""] * len(numbers)
    """Blanks as wide as each column so far, so that what follows is aligned with it."""
    while True:
        after = taken[-1].seq if taken else after
        if as_json and not follow:
            print_json([action_as_json(row) for row in taken])
        elif as_json:
            for row in taken:
                print_json_line(action_as_json(row))
        elif taken and not follow and is_screen():
            print_table(_LOG, map(_row, taken))
        else:
            rows = [widest, *([cells[number] for number in numbers] for cells in map(_row, taken))]
            widest = [" " * max(map(width, column)) for column in zip(*rows, strict=True)]
            for line in align(rows)[1:]:
                print_text(line)
        if not follow:
            break
        sys.stdout.flush()  # a pipe would keep the lines until there are 8 KiB of them
        time.sleep(_PERIOD)
        with store_to_read(settings) as connection:
            # The limit is for what was there before. Of what comes now, nothing is left out.
            taken = actions(connection, wanted._replace(after=after, limit=-1))
    if not taken and not as_json and after == 0:
        print_text("no actions")


def _row(row: ActionRow) -> list[str]:
    intent = as_json(row.intent)
    reasoning = intent.get("reasoning") if isinstance(intent, dict) else None
    words = f"“{safe(str(reasoning))}”" if reasoning else "(no reasoning)"
    what = f"{row.action_type or 'not an intent'} {row.artifact_id or ''}".rstrip()
    state = coloured("ok", "ok") if row.is_success else coloured("failed", str(row.error_code))
    message = shown_result(row)["message"]
    who, result = safe(row.principal or "-"), f"{state}: {safe(str(message))}"
    return [local(row.at), who, safe(what), result, words]


MOST_INTENTS: Final = 256 << 20
"""Bytes of a file with intents."""


@exchange.command(context_settings={"ignore_unknown_options": True})
@click.argument("identifier", metavar="ID", shell_complete=completing.shared_artifacts)
@click.argument("words", nargs=-1, metavar="[METHOD] [ARG]…")
@AS
@click.option("--method", metavar="METHOD", help="The method, if the first word is an ARG.")
@click.option("--budget", type=click.IntRange(min=0), metavar="N", help="The most scrip that it may cost.")
@click.option("--delegate", is_flag=True, help="Let code of other owners act on the caller's behalf.")
@acts
def invoke(
    act: Act,
    identifier: str,
    words: tuple[str, ...],
    method: str | None,
    budget: int | None,
    delegate: bool,
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
        "reasoning": act.reason,
    }
    if budget is not None:
        intent["budget"] = budget
    if delegate:
        intent["delegate"] = True
    hint = (
        None if guessed is None else f"{guessed} was taken as the method: if it is an ARG, add --method run"
    )
    act(intent, if_not_found=hint)


@exchange.command()
@click.argument("file", type=NamedPath(readable=False))
@click.option(
    "--as",
    "principal",
    metavar="P",
    shell_complete=completing.principals,
    help="The principal who acts (default: the principal_id of each line).",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and print each intent as it was understood.")
@json_option("Print JSON (always on).")
@pass_settings
def submit(settings: Settings, file: str, principal: str | None, dry_run: bool, as_json: bool) -> None:
    """Carry out the intents of FILE, one after another.

    FILE (`-`: stdin) has one JSON object per line.

    Prints one ActionResult per line. A failed action does not stop the others. Exit code 1: at least one failed.

    \b
    Example:
      runward exchange submit intents.jsonl --as writer
      runward exchange submit intents.jsonl --dry-run
    """
    acting = Acting(settings)
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


@exchange.command("execute", context_settings={"ignore_unknown_options": True})
@click.argument("file", type=NamedPath(readable=False))
@click.argument("arguments", nargs=-1, metavar="[ARG]…")
@click.option(
    "--timeout",
    metavar="DURATION",
    type=Length(LONGEST_TIMEOUT_S),
    help="The most time that it may take (default: from the settings).",
)
@json_option("Print JSON in one line.")
@click.pass_context
def execute_file(
    context: click.Context, file: str, arguments: tuple[str, ...], timeout: float | None, as_json: bool
) -> None:
    """Try code in the sandbox: run(ARG…) of FILE.

    It runs without daemon, store or identity.

    What it prints goes to stderr.

    An ARG is text; `:=JSON` is JSON. Exit code 1: the code failed, or this machine can't provide the sandbox.

    \b
    Example:
      runward exchange execute try.py 1 2
      runward exchange execute try.py ':={"depth": 3}' --timeout 1s
    """
    from runward.daemon.sandbox.execution import execution_to_json
    from runward.daemon.sandbox.workers import Job, execute

    executor = own_settings(context).exchange.executor
    if timeout is not None:
        executor = executor._replace(timeout=timeout)
    arguments_of_run = [argument_of(each) for each in arguments]
    execution = execute(Job(text_of(file), arguments_of_run, is_shown=True), executor)
    for line in execution.printed.splitlines():
        to_stderr(safe(line))
    printed = execution_to_json(execution)
    print_json_line(printed) if as_json else print_json(printed)
    if execution.fix is not None:
        note(f"{execution.error}; {execution.fix}")
    sys.exit(GOOD if execution.code is None else NOT_SO)
