"""Sessions: what ran, and the results."""
