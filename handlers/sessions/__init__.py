"""Sessions: when an attempt begins, when it is over, and the status that follows."""
