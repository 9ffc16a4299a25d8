"""Imported by each process of Python that finds this directory on PYTHONPATH."""

from tests.preloaded.reaching import note_if_asked

note_if_asked()
