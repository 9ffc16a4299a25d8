"""The key that links are signed with."""

import json
import stat
from pathlib import Path

import pytest

from runward.config.json_value import JsonValue
from runward.daemon.store.tables.approvals import ApprovalRow
from runward.daemon.views.text import visible
from runward.daemon.web.approvals import Links, _form, question_page
from runward.daemon.web.sockets import CannotListen

ROW = ApprovalRow(
    id="ap_0123456789ab",
    run="cr_0123456789ab",
    step=0,
    status="asked",
    shown='{"argv": ["rm", "<b>&\\u202e", "a\\nb"], "env": {"<i>": "</pre><script>"}, "cwd": "/tmp/<x>", '
    '"outcomes": [{"summary": "<img src=x>"}], "artifacts": []}',
    shown_hash="f" * 64,
    asked_at=1_800_000_000.0,
    expires_at=None,
    decided_by=None,
    note=None,
    chain="<release>",
    definition='{"steps": [{"id": "<step>"}]}',
    asked_before=0,
    run_status="waiting_approval",
)


def links(state: Path) -> Links:
    return Links(state, lambda: None)


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    signature = links(tmp_path).signature(ROW)
    key = tmp_path / "links.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert links(tmp_path).signature(ROW) == signature
    key.unlink()
    assert links(tmp_path).signature(ROW) != signature


def test_a_signature_is_of_one_approval_and_of_what_it_shows(tmp_path: Path) -> None:
    made = links(tmp_path)
    signature = made.signature(ROW)
    assert made.is_ours(ROW, signature)
    assert not made.is_ours(ROW._replace(id="ap_0123456789ac"), signature)
    assert not made.is_ours(ROW._replace(shown_hash="e" * 64), signature)
    for wrong in ("", signature[:-1], signature.upper(), "é", "\ud800"):
        assert not made.is_ours(ROW, wrong)


@pytest.mark.parametrize("harm", ["readable", "short", "link"])
def test_a_key_that_is_not_ours_alone_is_not_used(tmp_path: Path, harm: str) -> None:
    key = tmp_path / "links.key"
    key.write_bytes(b"k" * (16 if harm == "short" else 32))
    key.chmod(0o644 if harm == "readable" else 0o600)
    if harm == "link":
        key.rename(tmp_path / "elsewhere")
        key.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((CannotListen, OSError), match=r"links\.key"):
        links(tmp_path)


def test_nothing_on_the_page_is_markup_of_others() -> None:
    page = bytes(question_page(ROW).body).decode()
    for markup in ("<b>", "<i>", "<img", "<script", "<x>", "<step>", "<release>", "\u202e"):
        assert markup not in page
    assert "&lt;b&gt;&amp;\\u202e" in page


def test_characters_that_hide_are_written_out() -> None:
    assert visible("a\x1b[2Jä\u200b\n") == "a\\u001b[2Jä\\u200b\n"


def test_the_page_lists_what_is_covered_and_has_a_box_for_each_file_that_is_not() -> None:
    artifacts: list[JsonValue] = [
        {"step": 0, "id": None, "path": path, "sha256": "e" * 64, "state": state, "size": 3}
        for path, state in (("a.md", "hashed"), ('"<b>\u202e', "changing"), ("c", "too_large"))
    ]
    shown = json.dumps({**json.loads(ROW.shown), "artifacts": artifacts})
    text = bytes(question_page(ROW._replace(shown=shown)).body).decode()
    assert f"step 0  a.md  sha256:{'e' * 64}  3 bytes" in text
    assert "step 0  c  is not hashed" in text
    assert text.count('type="checkbox" name="without"') == 1
    assert 'value="&#34;&lt;b&gt;\u202e"' in text, "the form sends the path as it was shown"
    assert "Approve without <code>&#34;&lt;b&gt;\\u202e</code>, which was written to each time" in text


def test_a_form_names_the_files_that_are_left_out() -> None:
    form = _form(b"decision=approve&note=&without=a&without=d%2Fe")
    assert form is not None
    assert form.without == ("a", "d/e")
