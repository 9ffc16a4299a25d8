"""The files whose changes fire chains: which globs are watched, and the last reported state of each file."""

from typing import Final

from runward.daemon.store.store import Store
from runward.daemon.store.tables.table import Table, Write

WATCH: Final = Write("insert or ignore into watched_globs (glob, since) values (?, ?)", exact=False)
UNWATCH: Final = Write("delete from watched_globs where glob = ?", exact=False)
UNWATCH_FILES: Final = Write("delete from watched_files where glob = ?", exact=False)
KEEP: Final = Write(
    "insert into watched_files (glob, path, signature) values (?, ?, ?)"
    " on conflict (glob, path) do update set signature = excluded.signature"
)
GONE: Final = Write("delete from watched_files where glob = ? and path = ?", exact=False)


async def known_files(store: Store) -> dict[str, dict[str, str]]:
    """The last reported state of each file, by watched glob and by path."""
    found: dict[str, dict[str, str]] = {
        str(glob): {} for (glob,) in await store.read("select glob from watched_globs")
    }
    for glob, path, signature in await store.read("select glob, path, signature from watched_files"):
        found.setdefault(str(glob), {})[str(path)] = str(signature)
    return found


WATCHED_FILES: Final = Table(writes=(UNWATCH, UNWATCH_FILES, WATCH, GONE, KEEP))
