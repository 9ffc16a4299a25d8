"""What the operator wrote, found on the disk and read."""
