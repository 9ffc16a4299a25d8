"""The operator's files: finding and reading them."""
