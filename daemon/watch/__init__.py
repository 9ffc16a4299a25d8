"""Watching: noticing that something changed, and looking there. Notifications are hints; the scan is the truth."""
