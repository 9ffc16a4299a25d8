"""The formats: what people may write, and the meaning of each key. It opens no files."""
