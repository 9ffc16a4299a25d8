"""Nobody but the daemon's own user may steer it through its state directory."""

import grp
import os
import pwd
import struct
from pathlib import Path

import pytest

from runward.daemon.disk.state_rights import StateDirectoryUnsafe, check, naming_its_user, openings
from runward.daemon.store.ownership import prepare
from runward.daemon.users import name_of

STRANGER = 3_999_999


@pytest.fixture
def state(tmp_path: Path) -> Path:
    prepare(tmp_path / "state")
    return tmp_path / "state"


def give_away(path: Path) -> None:
    """Have a file belong to another user, which only root can do."""
    try:
        os.chown(path, STRANGER, -1)
    except PermissionError:
        pytest.skip("only root may give a file away")


def test_a_state_directory_as_it_is_made_is_nobody_elses(state: Path) -> None:
    assert list(openings(state)) == []
    prepare(state)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o772, 0o702])
@pytest.mark.parametrize("name", [".", "inbox", "starts"])
def test_what_others_may_write_to_is_refused_with_the_command_that_closes_it(
    state: Path, name: str, mode: int
) -> None:
    (state / name).chmod(mode)
    with pytest.raises(StateDirectoryUnsafe, match="other users may write to") as refused:
        prepare(state)
    command = f"chmod go-w {state / name}"
    assert str(refused.value).endswith(command)
    os.system(command)  # it is what the message says
    check(state)


def _user(name: str, uid: int, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


@pytest.mark.parametrize(
    ("group", "members", "others", "is_safe"),
    [
        ("me", [], [], True),
        ("me", ["me"], [], True),
        ("me", ["me", "alice"], [], False),
        ("staff", [], [], False),
        ("me", [], [_user("alice", STRANGER, 77)], False),
    ],
    ids=["its own", "named in it", "another member", "of another name", "another's first group"],
)
def test_a_group_of_the_users_own_is_nobody_else(
    state: Path,
    group: str,
    members: list[str],
    others: list[pwd.struct_passwd],
    is_safe: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many systems give each user a group and a umask of 002, so everything that they make is group-writable."""
    (state / "inbox").chmod(0o770)
    status = (state / "inbox").stat()
    me = _user("me", status.st_uid, status.st_gid)
    others = [
        each if each.pw_gid != 77 else _user(each.pw_name, each.pw_uid, status.st_gid) for each in others
    ]
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: me)
    monkeypatch.setattr(pwd, "getpwall", lambda: [me, *others])
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((group, "x", gid, members)))
    assert (list(openings(state)) == []) is is_safe


def test_an_access_control_list_counts_as_somebody_else(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (state / "inbox").chmod(0o770)
    monkeypatch.setattr("runward.daemon.users._is_own_group", lambda uid, gid: True)
    assert list(openings(state)) == []
    # Version 2: its owner, user 65534 (who may do all), the group, the mask, and others.
    entries = [
        (1, 7, 0xFFFFFFFF),
        (2, 7, 65534),
        (4, 7, 0xFFFFFFFF),
        (16, 7, 0xFFFFFFFF),
        (32, 0, 0xFFFFFFFF),
    ]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
    try:
        os.setxattr(state / "inbox", "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    assert [each.fix for each in openings(state)] == [f"chmod go-w {state / 'inbox'}"]


@pytest.mark.parametrize("name", [".", "inbox", "starts", "runward.db"])
def test_what_belongs_to_another_user_is_refused(state: Path, name: str) -> None:
    (state / "runward.db").touch(0o600)
    give_away(state / name)
    with pytest.raises(StateDirectoryUnsafe, match=f"belongs to {STRANGER}") as refused:
        prepare(state)
    command = f"chown {name_of(os.geteuid())}: {state / name}"
    assert command in str(refused.value)
    os.system(command)  # it is what the message says
    check(state)


def test_a_state_directory_of_a_user_of_this_machine_is_used_as_that_user_and_not_taken_over(
    state: Path,
) -> None:
    user = next(each for each in pwd.getpwall() if each.pw_uid not in (0, os.geteuid()))
    try:
        os.chown(state, user.pw_uid, -1)
    except PermissionError:
        pytest.skip("only root may give a file away")
    with pytest.raises(StateDirectoryUnsafe, match=f"{state} belongs to {user.pw_name}") as refused:
        prepare(state)
    assert f"`sudo -u {user.pw_name} RUNWARD_STATE_DIR={state} runward …`" in str(refused.value)
    assert "chown" not in str(refused.value).partition(";")[0]


def test_what_is_refused_in_another_users_state_directory_names_the_command_as_that_user(state: Path) -> None:
    with pytest.raises(PermissionError), naming_its_user(state):
        raise PermissionError
    give_away(state)
    with pytest.raises(StateDirectoryUnsafe, match=f"belongs to {STRANGER}"), naming_its_user(state):
        raise PermissionError


def test_what_another_user_left_in_a_state_directory_goes_back_to_its_owner(state: Path) -> None:
    (state / "runward.db").touch(0o600)
    for path in (state, *state.iterdir()):
        give_away(path)
    os.chown(state / "runward.db", 0, -1)
    (opening,) = openings(state, STRANGER)
    assert opening.message.startswith(
        f"{state}/runward.db belongs to root, and the daemon here runs as {STRANGER}"
    )
    assert opening.fix == f"take over what is there: chown {STRANGER}: {state}/runward.db"


def test_the_store_of_a_link_is_looked_at_where_it_lies(state: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere").chmod(0o777)
    (state / "inbox").rmdir()
    (state / "inbox").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirectoryUnsafe):
        check(state)


def test_others_may_look_into_it_for_that_steers_nothing(state: Path) -> None:
    for path in (state, state / "inbox"):
        path.chmod(0o755)
    check(state)
