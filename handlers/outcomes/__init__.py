"""Outcomes: what sessions found out, read with the verdict and kept under an id."""
