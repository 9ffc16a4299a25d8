"""`runward show`: shows, their plays and gate verdicts."""
