"""The store: copied, restored, pruned."""
