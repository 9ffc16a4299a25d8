"""A whole daemon reads what agents said last: it is an outcome of their session, and of the run that they were started in."""

import json
from pathlib import Path

import pytest
from tests.daemon.watch.test_following import KEY, Home, Launched

REVIEW = {"outcome_kind": "review_verdict", "summary": "two bugs", "verdict": "REJECT", "passed": False}
_KEPT = "select session_key, kind, name, summary, passed, file_path, is_known from artifacts order by session_key, place"


async def test_the_last_message_of_an_agent_is_an_outcome_of_its_session(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("judge it")
    home.transcript.text(f"Here it is.\n\n```json\n{json.dumps(REVIEW)}\n```")
    home.write()
    async with home.open() as running:
        await home.rest(running, 60)
        assert await running.rows(_KEPT) == [(KEY, "review_verdict", "final_message", "two bugs", 0, None, 1)]


@pytest.mark.parametrize(
    ("said", "invalid"),
    [
        ("Done.", None),
        (json.dumps({"outcome_kind": "nobody_knows", "summary": "s"}), None),
        (json.dumps({**REVIEW, "verdict": "MAYBE"}), ["verdict: Input should be"]),
    ],
    ids=["no JSON", "an unregistered kind", "invalid"],
)
async def test_a_last_message_that_is_no_outcome_is_none_and_one_that_is_wrong_is_explained(
    tmp_path: Path, said: str, invalid: list[str] | None
) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("judge it")
    home.transcript.text(said)
    home.write()
    async with home.open() as running:
        await home.rest(running, 60)
        assert await running.rows(_KEPT) == []
        ((known,),) = await running.rows(
            "select known from decisions where handler = 'sessions/ended' and verdict = 'decided'"
        )
    problems = json.loads(str(known)).get("invalid_outcomes")
    assert (problems is None) == (invalid is None)
    if invalid is not None:
        assert [each[: len(invalid[0])] for each in problems["final message"]] == invalid


@pytest.mark.parametrize("ends_well", [True, False])
async def test_it_is_also_one_of_the_run_in_which_the_agent_was_started_if_that_ended_well(
    tmp_path: Path, ends_well: bool
) -> None:
    home = Home(tmp_path)
    launched = Launched(home)
    home.transcript.prompt("judge it")
    home.write()
    async with home.open() as running:
        launched.begin()
        (launched.directory / "outcome.json").write_text(json.dumps({**REVIEW, "summary": "by file"}))
        await running.settle()
        home.transcript.text(json.dumps(REVIEW))
        home.write()
        launched.end()
        if not ends_well:
            (launched.directory / "exit.json").write_text('{"exit_code": 3, "cause": "exited"}')
        await home.rest(running, 2.5, 6)
        of_the_run = await running.rows(
            f"select name, summary from artifacts where session_key = '{launched.key}' and not is_provisional"
            " order by place"
        )
    said = [("final_message", "two bugs")] if ends_well else []
    assert of_the_run == [("outcome", "by file"), *said]
