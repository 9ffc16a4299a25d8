"""The language: what people may write, and what each word means by itself. Opens no file."""
