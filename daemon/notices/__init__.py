"""Delivering notices: starting programs and calling services."""
