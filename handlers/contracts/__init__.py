"""Contracts: what a session must leave behind, held against what it left."""
