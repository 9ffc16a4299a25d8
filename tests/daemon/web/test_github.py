"""Deliveries of GitHub over real sockets: every answer, and what is kept."""

import json

import pytest
from tests.daemon.web.serving import Served, request, signature

from runward.config.listening import Webhooks

OPENED = {"action": "opened", "pull_request": {"number": 7, "base": {"ref": "main"}}}


def test_a_delivery_is_kept_before_it_is_answered(served: Served) -> None:
    answer = served.deliver(OPENED)
    assert (answer.status, answer.body) == (202, "accepted: pr.opened\n")
    (event,) = served.events()
    assert (event["name"], event["id"]) == ("pr.opened", "d-1")
    assert {"pr_number": 7, "base": "main", "title": None}.items() <= dict(event["fields"]).items()  # type: ignore[call-overload] # a table


def test_the_same_delivery_is_the_same_event_and_another_one_another(served: Served) -> None:
    for delivery in ("d-1", "d-1", "d-2"):
        assert served.deliver(OPENED, delivery=delivery).status == 202
    assert sorted(str(each["id"]) for each in served.events()) == ["d-1", "d-2"]


def test_other_deliveries_are_accepted_and_nothing_is_kept(served: Served) -> None:
    assert served.deliver({"zen": "x"}, "ping").status == 202
    assert served.deliver({"action": "edited"}).status == 202
    assert served.events() == []


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "",
        "sha256=",
        f"sha1={'0' * 40}",
        signature(b"another body"),
        signature(json.dumps(OPENED).encode(), "another secret"),
        signature(json.dumps(OPENED).encode()).upper(),
        signature(json.dumps(OPENED).encode()).removeprefix("sha256="),
    ],
)
def test_a_signature_that_is_missing_or_wrong(served: Served, wrong: str | None) -> None:
    assert served.deliver(OPENED, x_hub_signature_256=wrong).status == 401
    assert served.events() == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "can't be read"),
        (b"payload=%7B%7D", "application/json"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"\xff", "not UTF-8"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": ' + b"[" * 100_000, "can't be read"),
        (b'{"a": ' + b"[" * 65 + b"]" * 65 + b"}", "deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too long"),
    ],
)
def test_a_signed_body_that_is_no_json_object(served: Served, body: bytes, said: str) -> None:
    answer = served.deliver(body)
    assert answer.status == 400
    assert said in answer.body
    assert served.events() == []


def test_a_header_that_is_missing(served: Served) -> None:
    for answer in (
        served.deliver(OPENED, x_github_event=None),
        served.deliver(OPENED, x_github_delivery=None),
    ):
        assert (answer.status, "is missing" in answer.body) == (400, True)


def test_a_delivery_id_that_is_none(served: Served) -> None:
    assert served.deliver(OPENED, delivery="../../x").status == 400
    assert served.deliver(OPENED, delivery="d" * 129).status == 400


def test_5_mib_are_accepted_and_a_byte_more_is_not(served: Served) -> None:
    most = 5 << 20
    for length, status in ((most, 202), (most + 1, 413), (3 * most, 413)):
        body = b'{"a": "' + b"x" * (length - 9) + b'"}'
        assert len(body) == length
        assert served.deliver(body, "push").status == status


def test_fields_that_have_no_room_in_an_event(served: Served) -> None:
    body = {**OPENED, "pull_request": {"title": "x" * (1 << 20)}}
    assert served.deliver(body).status == 400


def test_without_a_secret_there_is_nothing_here(served: Served) -> None:
    served.settings = served.settings._replace(webhooks=Webhooks())
    assert served.deliver(OPENED).status == 404
    assert served.deliver(b"x" * (6 << 20)).status == 404


def test_a_new_secret_counts_at_once(served: Served) -> None:
    served.secret.write_text("new")
    assert served.deliver(OPENED).status == 401
    body = json.dumps(OPENED).encode()
    assert served.deliver(OPENED, x_hub_signature_256=signature(body, "new")).status == 202


def test_a_secret_that_others_may_read_is_not_used_and_status_says_so(served: Served) -> None:
    assert served.listener is not None
    served.secret.chmod(0o640)
    assert served.deliver(OPENED).status == 503
    assert "chmod 600" in served.listener.degraded()[0]
    served.secret.chmod(0o600)
    assert served.deliver(OPENED).status == 202
    assert served.listener.degraded() == []


def test_a_disk_that_keeps_nothing_is_told_and_a_later_delivery_counts(served: Served) -> None:
    assert served.listener is not None
    (served.state / "inbox").write_text("in the way")
    assert served.deliver(OPENED).status == 503
    assert "can't be stored" in served.listener.degraded()[0]
    (served.state / "inbox").unlink()
    assert served.deliver(OPENED).status == 202


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_only_post_is_answered(served: Served, method: str) -> None:
    answer = served.call(request(method, "/webhooks/github", {}))
    assert (answer.status, answer.headers["allow"]) == (405, "post")


def test_other_addresses_are_not_found(served: Served) -> None:
    for target in ("/", "/webhooks", "/webhooks/github/", "/../webhooks", "/status", "//"):
        answer = served.call(request("GET", target, {}))
        assert answer.status in (404, 307), target
