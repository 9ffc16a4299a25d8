"""`runward doctor`: whether this installation works, proved by trying it."""
