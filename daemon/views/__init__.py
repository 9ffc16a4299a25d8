"""What commands show, as objects: those that `--json` prints. One shape, one function."""
