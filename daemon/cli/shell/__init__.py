"""From what people type to what they mean."""
