#!/bin/sh
# Makes the virtual environment; says what is missing, and the command that installs it.
set -eu

missing() {
    printf 'missing: %s\n    install it with: %s\n' "$1" "$2" >&2
    exit 1
}

command -v "$PYTHON" >/dev/null 2>&1 || missing "Python 3.11 or newer ($PYTHON)" "sudo apt-get install python3"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "Python 3.11 or newer ($PYTHON is $("$PYTHON" --version 2>&1))" "sudo apt-get install python3.11, then make PYTHON=python3.11"
"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || missing "Python's venv module" "sudo apt-get install python3-venv"
command -v git >/dev/null 2>&1 || missing "git" "sudo apt-get install git"

echo "setting up $VENV (once) ..." >&2
"$PYTHON" -m venv "$VENV"
if ! "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]' >"$VENV/setup.log" 2>&1; then
    tail -n 20 "$VENV/setup.log" >&2
    echo "pip could not install what Runward needs: is a package index reachable? (all of it: $VENV/setup.log)" >&2
    exit 1
fi
