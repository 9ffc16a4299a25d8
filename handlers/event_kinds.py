"""What events have in common: whose lane they go into, and under which key they are recorded."""


class OfSession:
    """What is said of a session: it goes into the session's lane."""

    __slots__ = ()
    session_key: str

    @property
    def lane(self) -> str:
        return self.session_key


class Request:
    """What came through the inbox, from a person or an agent's hook: its key is the name of the inbox file."""

    __slots__ = ()
    request: str

    @property
    def key(self) -> str:
        return self.request
