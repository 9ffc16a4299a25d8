"""What a session did, proven: its replay, its receipt, its summary."""
