"""What agents' replies cost in tokens, counted so that a price can be applied whenever it is shown."""
