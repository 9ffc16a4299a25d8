"""When a process that can't be found is dead: each condition by itself."""

from itertools import combinations

import pytest

from runward.handlers.model.processes import FIRST_NAMESPACE, NO_TICKS, RecordedProcess, Whereabouts
from runward.handlers.sessions.over import Absence
from runward.handlers.sessions.standing import MissingProcess

NAMED = RecordedProcess(11, 500, "b")
OTHER = RecordedProcess(12, 501, "b")
CONDITIONS = {"is_in_first_namespace", "is_local", "is_nowhere"}
HERE = Whereabouts("m", "b", FIRST_NAMESPACE)
INSIDE = Whereabouts("m", "b", 4_026_532_100)


def test_a_missing_process_is_dead_where_nobody_else_can_be_writing() -> None:
    absence = Absence((NAMED,), is_in_first_namespace=True, is_local=True, is_nowhere=True)
    assert absence.proves_death(grew_elsewhere=False)
    assert not absence.proves_death(grew_elsewhere=True)


@pytest.mark.parametrize("missing", [each for n in (1, 2, 3) for each in combinations(sorted(CONDITIONS), n)])
def test_without_each_of_these_conditions_it_may_live_elsewhere(missing: tuple[str, ...]) -> None:
    absence = Absence((NAMED,), **{each: each not in missing for each in CONDITIONS})
    assert not absence.proves_death(grew_elsewhere=False)


@pytest.mark.parametrize(
    ("seen_in", "here", "covers"),
    [
        (HERE, HERE, True),
        (INSIDE, INSIDE, True),
        (HERE, INSIDE, False),
        (INSIDE, HERE, False),
        # After a restart of the machine, its first namespace is another one, but has the same number.
        (HERE._replace(boot_id="earlier"), HERE, True),
        (HERE._replace(boot_id="earlier", machine="another"), HERE, False),
        (HERE._replace(boot_id="earlier", machine=""), HERE._replace(machine=""), False),
        # Machine ids may be part of an image, and the numbers of namespaces repeat.
        (INSIDE._replace(boot_id="earlier"), INSIDE, False),
        (INSIDE._replace(machine="another"), INSIDE, True),
        (HERE._replace(boot_id=""), HERE._replace(boot_id="", machine="another"), False),
        # An older hook doesn't say where it ran.
        (Whereabouts("", "b", None), HERE, True),
        (Whereabouts("", "b", None), INSIDE, False),
        (HERE, HERE._replace(namespace=None), False),
    ],
)
def test_a_process_that_was_seen_is_dead_only_where_its_number_is_valid(
    seen_in: Whereabouts, here: Whereabouts, covers: bool
) -> None:
    assert seen_in.covers(here) == covers


@pytest.mark.parametrize(
    ("named", "known", "is_about"),
    [
        ((NAMED,), [NAMED], True),
        ((NAMED,), [NAMED._replace(pid=4711)], True),  # by its number in another namespace
        ((NAMED,), [NAMED._replace(boot_id="earlier")], True),  # files don't name the boot
        ((NAMED,), [NAMED._replace(start_ticks=501)], False),
        ((NAMED, OTHER), [NAMED], False),
        ((NAMED, OTHER), [NAMED, OTHER], True),
        ((NAMED._replace(start_ticks=NO_TICKS),), [NAMED], True),
        ((NAMED._replace(start_ticks=NO_TICKS),), [OTHER], False),
        ((), [NAMED], True),  # a lock that nobody holds
    ],
)
def test_only_a_process_that_was_seen_is_known_to_be_the_one_that_is_named(
    named: tuple[RecordedProcess, ...], known: list[RecordedProcess], is_about: bool
) -> None:
    absence = Absence(named, is_in_first_namespace=False, is_local=False, is_nowhere=False)
    assert absence.is_about(known) == is_about


@pytest.mark.parametrize("here", [HERE, INSIDE])
@pytest.mark.parametrize("is_nowhere", [True, False])
@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("has_namespace", [True, False])
@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("boot", ["b", "another"])
def test_a_missing_process_of_a_run_is_dead_if_it_is_ours_or_can_not_be_anybody_elses(
    boot: str, is_ours: bool, has_namespace: bool, is_local: bool, is_nowhere: bool, here: Whereabouts
) -> None:
    missing = MissingProcess(boot, is_ours, has_namespace, lambda: is_nowhere, lambda: is_local)
    is_first, is_of_this_boot = here == HERE, boot == "b"
    may_be_elsewhere = not is_first or (not is_nowhere if is_of_this_boot else not is_local)
    is_known_here = is_ours or (is_of_this_boot and has_namespace)
    assert missing.is_dead(here) == (is_known_here or not may_be_elsewhere)
    assert not MissingProcess("", False, True, lambda: True, lambda: False).is_dead(here._replace(boot_id=""))
