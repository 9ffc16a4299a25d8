"""The inbox: the way in for everybody who isn't the daemon, one file an event."""
