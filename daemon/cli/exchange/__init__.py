"""The exchange."""
