"""Playbooks and contracts."""
