"""Shows: what is kept of their plays, and the plan that each was played under."""
