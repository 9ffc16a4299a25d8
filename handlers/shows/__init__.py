"""Shows: what is kept of their plays, and the plan of each play."""
