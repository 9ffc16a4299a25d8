"""How the daemon is."""
