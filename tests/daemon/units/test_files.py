"""Unit files on the disk: what is ours is brought up to date, what a person wrote is kept."""

from pathlib import Path

import pytest

from runward.daemon.units.installing import Change, carry_out, is_untouched, plan, sealed

NEW = "[Service]\nExecStart=/new\n"
OLD = "[Service]\nExecStart=/old\n"


@pytest.mark.parametrize(
    ("there", "wanted", "deed", "is_kept"),
    [
        (None, NEW, "written", False),
        (sealed(NEW), NEW, "unchanged", False),
        (sealed(OLD), NEW, "updated", False),
        (OLD, NEW, "updated", True),
        (sealed(OLD) + "User=me\n", NEW, "updated", True),
        (None, None, "absent", False),
        (sealed(OLD), None, "removed", False),
        (sealed(OLD).replace("/old", "/mine"), None, "removed", True),
    ],
)
def test_a_unit_is_put_in_place_and_a_persons_is_kept(
    tmp_path: Path, there: str | None, wanted: str | None, deed: str, is_kept: bool
) -> None:
    path = tmp_path / "units" / "runward.service"
    if there is not None:
        path.parent.mkdir()
        path.write_text(there)
    change = plan(str(path), wanted)
    assert (change.deed, change.kept is not None) == (deed, is_kept)
    carry_out(change, wanted)
    if wanted is None:
        assert not path.exists()
    else:
        assert path.read_text() == sealed(wanted)
        assert path.stat().st_mode & 0o777 == 0o644 or deed == "unchanged"
    if is_kept:
        assert change.kept == f"{path}.kept"
        assert Path(change.kept).read_text() == there


def test_what_was_kept_before_is_kept_on(tmp_path: Path) -> None:
    path = tmp_path / "runward.service"
    for content in ("first", "second"):
        path.write_text(content)
        carry_out(plan(str(path), NEW), NEW)
    assert (tmp_path / "runward.service.kept").read_text() == "first"
    assert (tmp_path / "runward.service.kept2").read_text() == "second"


def test_a_masked_unit_is_kept_masked_beside_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "runward.service"
    path.symlink_to("/dev/null")
    carry_out(plan(str(path), NEW), NEW)
    assert path.read_text() == sealed(NEW)
    assert (tmp_path / "runward.service.kept").is_symlink()


@pytest.mark.parametrize(
    "text", ["", "[Service]\n", "# Written by `runward daemon install` (0123456789abcdef).\n"]
)
def test_a_seal_that_is_not_of_this_text_is_none(text: str) -> None:
    assert not is_untouched(text)
    assert is_untouched(sealed(text))


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    assert plan(str(tmp_path / "a" / "b"), NEW) == Change(str(tmp_path / "a" / "b"), "written")
    assert list(tmp_path.iterdir()) == []
