"""Schedules: a chain is fired at the times that its file gives."""
