"""Layouts: how each tool writes its runs to disk, one file a tool."""
