"""The verified bundle of an attempt: replay, receipt and summary."""
