"""Sessions: what ran, and what became of it."""
