"""Layouts: how each tool writes its runs to disk, one to four files per tool."""
