"""Who may come in to the Studio: codes that work once, and cookies that only the key makes."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runward.daemon.disk.credentials import (
    CODE_S,
    COOKIE_S,
    is_valid_cookie,
    log_out_all,
    new_code,
    new_cookie,
    own_name,
    studio_key,
    use_code,
)

NOW = 1_800_000_000.0
HOST = "a1b2c3d4.localhost"


def codes(state: Path) -> list[Path]:
    return list((state / "studio/codes").iterdir())


def test_a_code_works_once(tmp_path: Path) -> None:
    code = new_code(tmp_path)
    assert [use_code(tmp_path, code), use_code(tmp_path, code)] == [True, False]


def test_of_many_who_use_a_code_at_the_same_time_one_comes_in(tmp_path: Path) -> None:
    code = new_code(tmp_path)
    with ThreadPoolExecutor(8) as clients:
        came_in = list(clients.map(lambda _: use_code(tmp_path, code), range(64)))
    assert came_in.count(True) == 1


@pytest.mark.parametrize("age", [CODE_S + 1, -CODE_S - 1], ids=["late", "of a time to come"])
def test_a_late_code_is_refused_and_used_up(tmp_path: Path, age: float) -> None:
    code, (file,) = new_code(tmp_path), codes(tmp_path)
    os.utime(file, (time.time() - age,) * 2)
    assert not use_code(tmp_path, code)
    assert codes(tmp_path) == []


@pytest.mark.parametrize("guess", ["", "0" * 64, "../studio.key", "codes", "é" * 64])
def test_a_guessed_code_is_refused(tmp_path: Path, guess: str) -> None:
    new_code(tmp_path)
    assert not use_code(tmp_path, guess)
    assert len(codes(tmp_path)) == 1


def test_the_code_itself_is_kept_nowhere_and_nobody_else_sees_its_file(tmp_path: Path) -> None:
    code, (file,) = new_code(tmp_path), codes(tmp_path)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"", 0o600)
    assert code not in file.name


def test_old_codes_are_removed_with_the_next_one(tmp_path: Path) -> None:
    new_code(tmp_path)
    (old,) = codes(tmp_path)
    os.utime(old, (time.time() - CODE_S - 1,) * 2)
    new_code(tmp_path)
    assert old not in codes(tmp_path)


def test_a_cookie_is_valid_for_thirty_days_for_its_host_and_its_key_alone(tmp_path: Path) -> None:
    key = studio_key(tmp_path)
    cookie = new_cookie(key, HOST, NOW)
    assert is_valid_cookie(key, HOST, cookie, NOW + COOKIE_S)
    assert not is_valid_cookie(key, HOST, cookie, NOW + COOKIE_S + 1)
    assert not is_valid_cookie(key, "studio.example", cookie, NOW)
    assert not is_valid_cookie(bytes(32), HOST, cookie, NOW)


@pytest.mark.parametrize("change", ["later", "cut", "empty", "other digits"])
def test_a_forged_cookie_is_refused(tmp_path: Path, change: str) -> None:
    key = studio_key(tmp_path)
    expires, _, signed = new_cookie(key, HOST, NOW).partition(".")
    forged = {
        "later": f"{int(expires) + 1}.{signed}",
        "cut": f"{expires}.{signed[:-1]}",
        "empty": "",
        "other digits": f"{expires}.{'0' * 64}",
    }[change]
    assert not is_valid_cookie(key, HOST, forged, NOW)


def test_after_a_logout_no_cookie_and_no_code_of_before_is_valid(tmp_path: Path) -> None:
    code, key = new_code(tmp_path), studio_key(tmp_path)
    cookie = new_cookie(key, HOST, NOW)
    log_out_all(tmp_path)
    assert not is_valid_cookie(studio_key(tmp_path), HOST, cookie, NOW)
    assert not use_code(tmp_path, code)
    assert own_name(studio_key(tmp_path)) != own_name(key)
