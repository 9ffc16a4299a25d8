"""The daemon's log: its lines, and where they go."""
