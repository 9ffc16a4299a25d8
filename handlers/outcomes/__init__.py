"""Outcomes: what sessions found out, read during the run and with the verdict, and kept under an id."""
