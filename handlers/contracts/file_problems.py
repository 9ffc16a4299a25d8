"""Problems with a produced file when it is hashed, as a code word and in words."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from runward.handlers.contracts.file_hashes import MOST_GIB

FileProblem: TypeAlias = Literal[
    "gone",
    "empty",
    "not_regular",
    "outside",
    "denied",
    "unreadable",
    "changing",
    "changed",
    "too_large",
]
"""A `changed` file has a hash, but not that of what was verified. The others have none."""

MEANINGS: Final[Mapping[str, str]] = {
    "gone": "is gone",
    "empty": "is empty",
    "not_regular": "is not a regular file",
    "outside": "leads outside the root",
    "denied": "is not readable by the daemon",
    "unreadable": "can't be read",
    "changing": "was written to each time while it was hashed",
    "changed": "was changed between its verification and its hash",
    "too_large": f"is not hashed: the limit is {MOST_GIB} GiB for one attempt",
}
