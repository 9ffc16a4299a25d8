"""`runward init`: one list of steps, from which the plan, the dry run, the doing and the undoing follow."""
