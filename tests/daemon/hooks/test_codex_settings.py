"""Codex's settings with our program in `notify` and out again: nothing else changes, not by a byte."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.hooks.codex_settings import KEY, install, others_in, uninstall
from runward.daemon.hooks.settings_file import Refused, words_of

NAME = "config.toml"
OURS = words_of("codex", '/state "of" mine\\ä')
OLDER = [
    "/old/python",
    "-S",
    "-E",
    "/old/site/runward/daemon/hooks/runward_hook.py",
    "codex",
    "--state",
    "/s",
]


def installed(text: str | None) -> str:
    after = install(text, NAME, OURS, (KEY,)).text
    assert after is not None
    return after


def notify_in(text: str) -> object:
    return tomllib.loads(text.removeprefix("\ufeff"))["notify"]


def test_into_nothing_and_out_again_leaves_nothing() -> None:
    text = installed(None)
    assert tomllib.loads(text) == {"notify": OURS}
    assert uninstall(text, NAME).text is None
    assert uninstall(None, NAME).text is None


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("", None),
        ("\ufeff", None),
        ("\n", None),
        ("# only a comment", None),
        ('model = "o3"\r\n[tui]\r\nnotifications = true\r\n', None),
        ("[a.notify]\nb = 1", None),
        ("notify = []", []),
        ("notify = [ # none\n]\n", []),
        ('notify = ["notify-send", "Codex"]', ["notify-send", "Codex"]),
        ("x = 1\n'notify'=['a',]# why\n[t]\n", ["a"]),
        ('\ufeffnotify = [\r\n  "a", # one\r\n  """b\r\n""",\r\n]\r\n', ["a", "b\n"]),
    ],
)
def test_what_was_there_stays_and_comes_back_byte_for_byte(text: str, then: list[str] | None) -> None:
    after = installed(text)
    assert installed(after) == after, "twice changes nothing"
    assert notify_in(after) == (OURS if then is None else [*OURS, "--", *then])
    assert uninstall(after, NAME).text == text


@pytest.mark.parametrize("text", [None, "a = 1\n", "notify = ['a']\n", "notify = []"])
def test_an_older_one_is_replaced_and_known_again(text: str | None) -> None:
    older = install(text, NAME, OLDER, (KEY,)).text
    assert older is not None
    assert installed(older) == installed(text)
    assert install(older, NAME, OURS, ()).text == text, "without an event it is removed"
    assert uninstall(older, NAME).text == text


def test_a_comment_behind_ours_stays() -> None:
    after = installed("a = 1\n")
    assert uninstall(after.replace("]\n", "] # ours\n"), NAME).text == " # ours\na = 1\n"


def test_words_that_another_program_wrote_anew_are_known() -> None:
    then = ", ".join(f"'{word}'" for word in [*OLDER, "--", "a"])
    assert uninstall(f"notify = [\n {then}\n]", NAME).text == "notify = [\n 'a'\n]"
    only = ", ".join(f"'{word}'" for word in [*OLDER, "--"])
    assert uninstall(f"notify = [{only}]", NAME).text == "notify = []"


def test_another_program_that_calls_ours_is_not_called_by_it() -> None:
    words = ", ".join(f"'{word}'" for word in ["wrapper", *OLDER])
    with pytest.raises(Refused, match="another program already calls"):
        install(f"notify = [{words}]", NAME, OURS, (KEY,))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = \n", ":1:5: is not TOML"),
        ("a = 1\na = 2\n", ":2:6: is not TOML"),
        ('\nnotify = "notify-send"', ":2:10: notify is not a list of texts"),
        ("notify = ['a', 1]", ":1:10: notify is not a list of texts"),
        ("[notify]\na = 1", ":1:2: notify is not a list of texts"),
        ("a = " + "[" * 10_000 + "]" * 10_000, ": is nested too deeply"),
    ],
)
def test_what_is_broken_is_refused_with_its_place_and_fix(text: str, place: str) -> None:
    with pytest.raises(Refused) as by_install:
        install(text, NAME, OURS, (KEY,))
    with pytest.raises(Refused) as by_uninstall:
        uninstall(text, NAME)
    for refusal in (by_install, by_uninstall):
        said = refusal.value.problem.render()
        assert said.startswith(NAME + place)
        assert said.endswith(")"), "and the fix"


words = st.sampled_from(['"a"', "'b c'", '"""x\n"""', "'''y'''", '"\\"]"', "'# no comment'"])
gaps = st.sampled_from(["", " ", "\n", "  # a comment, with ]\n", "\t"])
lines = st.sampled_from(
    [
        "",
        "# notify = ['x']",
        "x = 1",
        'y.z = "notify = []"',
        "d = 1979-05-27T07:32:00Z",
        "n = [nan, 1e3]",
        "i = {a = [{}]}",
    ]
)
below = st.sampled_from(["", "[profiles.a]\nnotify = 'no'", "[[p]]\n\n[p.q] # x\nw = ['''\n''']", "[tui]"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    top = draw(st.lists(lines, unique=True, max_size=4))
    if draw(st.booleans()):
        inner = "".join(
            f"{draw(gaps)}{draw(words)}{draw(gaps)}," for _ in range(draw(st.integers(0, 3)))
        ) + draw(gaps)
        key = draw(st.sampled_from(["notify", '"notify"', "notify "]))
        top.insert(draw(st.integers(0, len(top))), f"{key}= [{inner}]{draw(st.sampled_from(['', ' # why']))}")
    text = "\n".join([*top, draw(below)]) + draw(st.sampled_from(["", "\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text


@given(texts())
def test_whatever_stands_there_comes_back_and_only_ours_is_added(text: str) -> None:
    after = installed(text)
    assert installed(after) == after
    assert uninstall(after, NAME).text == text
    assert others_in(after, NAME) == others_in(text, NAME)
    before, now = (tomllib.loads(each.removeprefix("\ufeff")) for each in (text, after))
    then = before.pop("notify", None)
    assert now.pop("notify") == (OURS if then is None else [*OURS, "--", *then])
    assert repr(sorted(now.items())) == repr(sorted(before.items()))
