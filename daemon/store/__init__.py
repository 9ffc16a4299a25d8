"""The store: the only SQL. One SQLite file, one writer; each write is a transaction that is described as data."""
