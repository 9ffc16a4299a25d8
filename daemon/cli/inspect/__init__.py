"""What files say, without a daemon."""
