"""Approvals: a person says yes or no to what a step of a chain would do."""
