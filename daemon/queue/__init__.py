"""The queue: what is owed. Events go in once, jobs come out claimed, and are completed once."""
