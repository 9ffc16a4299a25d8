"""Values of our own types as JSON, for the store: what one program writes, a later one reads."""

from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

_encode: Final = msgspec.json.Encoder().encode


def as_json(value: object) -> str:
    """A value of our own types as JSON text: a Struct or dataclass as an object, a NamedTuple as an array."""
    return _encode(value).decode()


class Stored(Generic[T]):
    """How values of one type are stored."""

    __slots__ = ("_decode",)

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.json.Decoder(kind).decode

    def load(self, text: str | bytes) -> T:
        """The value that was stored. Raises `ValueError` for what this program never wrote."""
        try:
            return self._decode(text)
        # This program never wrote a value that is nested deeper than the decoder's stack.
        except (msgspec.DecodeError, RecursionError) as error:
            raise ValueError(str(error)) from error
