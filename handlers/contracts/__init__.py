"""Contracts: what a session must leave behind, compared with what it left."""
