"""Chains, schedules and events."""
