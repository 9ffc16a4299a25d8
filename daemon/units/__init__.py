"""The units under which systemd runs the daemon: their text, and how they are installed and removed."""
