"""Watching: noticing that something changed. Notifications are hints; the scan is the truth."""
