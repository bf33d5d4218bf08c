"""The error for bytes that are not what the protocol promises."""

from lockgate.model.errors import Terminal

__all__ = ["Malformed"]


class Malformed(Terminal):
    """The stream is not pgoutput as this decoder knows it. Reading it again gives the same."""

    code = "pgoutput-malformed"

    def __init__(
        self, what: str, *, object_: str = "pgoutput", cause: BaseException | str | None = None
    ) -> None:
        super().__init__(
            what,
            object_=object_,
            hint="the slot must use pgoutput with proto_version 1, text values and no streaming; "
            "if it does, this is a bug in Lockgate",
            operation="decode",
            cause=cause,
        )
