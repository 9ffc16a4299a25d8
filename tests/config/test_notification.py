"""`[[notify]]`: who is told of what, and how."""

import pytest
from tests.config.test_settings import complaints, good

from runward.config.notification import Recipient
from runward.config.settings import settings_from_json, settings_to_json

EACH = """
[[notify]]
on = ["approval.asked", "chain.*"]
slack_file = "slack.url"

[[notify]]
on = ["session.failed"]
command = ["tell", "{{ with.title }}"]

[[notify]]
on = ["*"]
desktop = true

[[notify]]
on = ["*"]
webhook = "https://example.org/hook"
secret_file = "/etc/secret"
"""


def test_each_means_is_read_with_whole_paths() -> None:
    assert good(EACH).notify == (
        Recipient(("approval.asked", "chain.*"), slack_file="/etc/runward/slack.url"),
        Recipient(("session.failed",), command=("tell", "{{ with.title }}")),
        Recipient(("*",), desktop=True),
        Recipient(("*",), webhook="https://example.org/hook", secret_file="/etc/secret"),  # a path
    )


def test_recipients_survive_the_way_through_json() -> None:
    again = settings_from_json(settings_to_json(good(EACH)))
    assert again is not None
    assert again.notify == good(EACH).notify


def test_a_recipient_keeps_its_name_wherever_it_stands_and_whatever_it_is_told() -> None:
    first, *_ = good(EACH).notify
    moved = good(EACH.replace('on = ["approval.asked", "chain.*"]', 'on = ["session.*"]')).notify[0]
    assert moved.name == first.name
    assert first.name != good(EACH.replace("slack.url", "other.url")).notify[0].name


@pytest.mark.parametrize(
    ("kind", "told"), [("chain.failed", True), ("approval.asked", True), ("session.failed", False)]
)
def test_globs_say_what_it_is_told_of(kind: str, told: bool) -> None:
    assert good(EACH).notify[0].wants(kind) is told


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('on = ["*"]', "must have exactly one of command, desktop, ntfy, slack, webhook"),
        ('on = ["*"]\ndesktop = true\ncommand = ["a"]', "must have exactly one of"),
        ('on = ["*"]\nntfy = "https://a/b"\nntfy_file = "c"', "must have exactly one of"),
        ('on = ["*"]\ndesktop = false', "must be true"),
        ('on = ["*"]\ndesktop = true\nsecret_file = "a"', "belongs to a webhook"),
        ('on = ["*"]\nslack = "hooks.slack.com/x"', "is not an address"),
        ('on = ["chain.lost"]\ndesktop = true', "matches no kind of notice"),
        ("desktop = true", "has no 'on'"),
        ('on = ["session.*"]\ndesktop = true\nafter = "1h"', "belongs to attention.overdue"),
        ('on = ["*"]\ndesktop = true\nafter = "1"', "is not a duration"),
        ('on = ["*"]\ncommand = "notify"', "must be a list of words"),
        ('on = ["*"]\ncommand = ["{{ title }}"]', "{{"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str) -> None:
    assert any(complaint in each for each in complaints(f"[[notify]]\n{text}\n"))
