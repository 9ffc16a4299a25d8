"""Timers: what is due at a point in time waits in a lane of its own."""
