"""What the doctor says of notices: what each recipient needs, and what could not be delivered."""

from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place

from runward.config.notification import Recipient
from runward.config.settings import Settings
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.doctor.settings import examine_notices
from runward.daemon.store.ownership import prepare
from runward.daemon.store.schema import migrate

ON = ("chain.*",)


def examined(state: Path, *recipients: Recipient) -> list[Finding]:
    settings = Settings(str(state), notify=recipients)
    installation = Installation(settings, False, (), {"PATH": "/usr/bin:/bin"})
    return list(examine_notices(installation, Patience(20.0)))


def test_nobody_is_told(tmp_path: Path) -> None:
    (found,) = examined(tmp_path)
    assert (found.result, "no [[notify]]" in found.message) == ("ok", True)


@pytest.mark.parametrize(
    ("recipient", "said"),
    [
        (Recipient(ON, command=("sh", "-c", "true")), None),
        (Recipient(ON, command=("no-such-program",)), "there is no program no-such-program"),
        (Recipient(ON, ntfy="https://ntfy.example/a"), None),
        (Recipient(ON, slack_file="slack.url"), "slack.url can't be read"),
        (Recipient(ON, webhook="https://a.example", secret_file="empty"), "empty is empty"),
    ],
)
def test_each_recipient_has_what_it_needs_or_the_finding_says_what_is_missing(
    recipient: Recipient, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch(mode=0o600)
    (found,) = examined(tmp_path, recipient)
    assert found.result == ("ok" if said is None else "failed")
    assert said is None or said in found.message
    assert recipient.name in found.message


def test_what_was_given_up_is_counted(tmp_path: Path) -> None:
    place = Place(tmp_path)
    prepare(place.state)
    migrate(place.state / "runward.db")
    place.change_store(
        "insert into notices (id, kind, subject, recipient, title, text, created_at, state, next_at, since, settled_at)"
        " values ('nt_1', 'chain.failed', 'cr_1', 'r', 't', 't', 1, 'dead', 1, 1, 2)"
    )
    found = examined(place.state)[-1]
    assert (found.result, found.message) == ("warning", "1 notice could not be delivered")
