"""`runward doctor`: whether this installation can do what it is for, proved by doing. One file a subject."""
