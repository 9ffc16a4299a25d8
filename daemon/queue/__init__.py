"""The queue of open work. Events go in once; jobs come out claimed, and are completed once."""
