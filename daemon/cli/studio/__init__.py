"""The Studio."""
