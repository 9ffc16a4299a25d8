"""The exchange: artifacts that outlive their sessions, the principals that own them and pay, and what each may do."""
