"""The inbox: the way in for everything outside the daemon, one file per event."""
