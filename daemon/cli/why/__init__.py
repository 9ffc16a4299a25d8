"""Why something is as it is."""
