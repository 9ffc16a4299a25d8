"""Journals: the append-only lines that a session leaves for people and programs."""
