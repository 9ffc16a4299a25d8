"""Layouts: how each tool writes its runs to disk, one file per tool."""
