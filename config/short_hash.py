"""SHA-256 of what is short, without OpenSSL, whose import takes as long as hashing megabytes."""

# Looking for a module that isn't there takes as long as a fork, each time. Python 3.12 brought this method and that module.
if hasattr(int, "is_integer"):
    from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
else:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:  # a Python that was built without its own
        from hashlib import sha256


def sha256_hex(content: bytes) -> str:
    """The SHA-256 of these bytes, in hex."""
    digest: str = sha256(content).hexdigest()
    return digest
