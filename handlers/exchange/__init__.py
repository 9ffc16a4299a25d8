"""The exchange: artifacts that outlive their sessions, principals who own and pay, and what each may do."""
