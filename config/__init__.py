"""The language: what people may write, and what each word means by itself. It opens no file."""
