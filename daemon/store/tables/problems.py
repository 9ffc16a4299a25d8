"""What is wrong with files, for the agents and people who wrote them."""

from typing import Final

from runward.daemon.store.tables.table import Table, Write

DELETE: Final = Write("delete from problems where path = ?", exact=False)

INSERT: Final = Write("insert into problems (path, line, message, mend, since) values (?, ?, ?, ?, ?)")

PROBLEMS: Final = Table(writes=(DELETE, INSERT))
