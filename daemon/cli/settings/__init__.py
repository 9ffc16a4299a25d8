"""What the operator wrote."""
