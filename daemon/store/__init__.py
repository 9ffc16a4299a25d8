"""The store: the only SQL. One SQLite file, one writer, every write a transaction that is data."""
