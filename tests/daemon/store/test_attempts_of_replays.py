"""Commands read attempts without loading what is remembered of a session: they find it by its position in the JSON."""

from runward.daemon.store.tables.replays import LOG_UP_TO
from runward.daemon.watch.remembered import Remembered
from runward.handlers.sessions.follow import Followed
from runward.handlers.sessions.observe import TraceRead, Watched


def test_what_belongs_to_earlier_attempts_is_read_where_it_is_stored() -> None:
    attempt, traced = Watched._fields.index("attempt"), Watched._fields.index("traced")
    followed, lines = Remembered._fields.index("followed"), Followed._fields.index("lines")
    number = Followed._fields.index("attempt")
    size = TraceRead._fields.index("size")
    native, foreign = LOG_UP_TO.split("'native'")[1].split("end", 1)
    assert f"'$[{attempt}]' = a.attempt then c.state ->> '$[{traced}][{size}]'" in native
    assert f"'$[{followed}][{number}]' = a.attempt then c.state ->> '$[{followed}][{lines}]'" in foreign
