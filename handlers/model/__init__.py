"""What each capability records and decides, as data: its events, effects, questions and records."""
