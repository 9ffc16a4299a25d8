"""What events have in common: their lane, and the key under which they are recorded."""

from typing import ClassVar


class OfSession:
    """A statement about a session: it goes into the session's lane."""

    __slots__ = ()
    session_key: str

    @property
    def lane(self) -> str:
        return self.session_key


class OfFiles:
    """A statement about files that its jobs read in the background, `produced_bytes` in all."""

    __slots__ = ()
    produced_bytes: int


class AfterTime:
    """What happens because time has passed, or others ended. Its cause is past, and it begins a new line of causes."""

    __slots__ = ()


class FromInbox:
    """What came through the inbox: its key is the name of the inbox file."""

    __slots__ = ()
    request: str

    @property
    def key(self) -> str:
        return self.request


class Request(FromInbox):
    """What a person asks for, or a program in a person's name."""

    __slots__ = ()
    type: ClassVar[str]
    version: ClassVar[int]
    said_by: str
