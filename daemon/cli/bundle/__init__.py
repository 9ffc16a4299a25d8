"""Bundles: replays and receipts."""
