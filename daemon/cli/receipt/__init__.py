"""Receipts: the proof of what a session did."""
