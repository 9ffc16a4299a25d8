"""The units under which systemd runs the daemon: their text, and how they get into place and out of it."""
