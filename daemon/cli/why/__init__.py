"""Why something is the way it is."""
