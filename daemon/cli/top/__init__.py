"""`runward top`: the list of sessions, live, on the whole screen."""
