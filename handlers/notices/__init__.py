"""Notices: messages to people, each kept until it is delivered."""
