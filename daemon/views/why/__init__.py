"""Why something is the way it is: causes, evidence and obstacles, in words."""
