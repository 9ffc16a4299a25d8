"""Notifying people outside: programs that are started, and services that are called."""
