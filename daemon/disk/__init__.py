"""Runward's own files: written durably, copied, and who may change them."""
