"""Notices: what people outside are told, each until it is delivered."""
