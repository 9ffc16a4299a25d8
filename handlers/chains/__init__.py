"""Chains: what follows when something happened, step by step."""
