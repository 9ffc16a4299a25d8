"""Shows: what is stored about their plays, and the plan of each play."""
