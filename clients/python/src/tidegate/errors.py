"""The error of the client. A denial is not an error: it is a `Decision`."""

from __future__ import annotations

TYPE_PREFIX = "urn:tidegate:"


class TidegateError(Exception):
    """The server did not answer, or did not send a decision.

    `detail` is the reason. If the server sent the error, `status` is its HTTP status, `type` its kind,
    e.g. `urn:tidegate:unknown-policy`, and `field` the invalid field.
    """

    def __init__(
        self,
        detail: str,
        status: int | None = None,
        type: str | None = None,  # noqa: A002 (the name in RFC 9457)
        field: str | None = None,
    ) -> None:
        # copy.copy passes these arguments to the constructor.
        super().__init__(detail, status, type, field)
        self.detail = detail
        self.status = status
        self.type = type
        self.field = field

    def __str__(self) -> str:
        """Return the detail, and the status if there is one."""
        return self.detail if self.status is None else f"{self.detail} (status {self.status})"

    @property
    def is_answer(self) -> bool:
        """Whether a tidegate server sent this error, so it is reachable."""
        return self.type is not None and self.type.startswith(TYPE_PREFIX)

    @property
    def is_unknown_policy(self) -> bool:
        """Whether the server has no such policy, e.g. after a reload. `on_error` applies."""
        return self.type == f"{TYPE_PREFIX}unknown-policy"

    @property
    def is_mistake(self) -> bool:
        """Whether the call was invalid, e.g. for a missing key.

        It is raised regardless of `on_error`: a retry would not help.
        """
        is_rejected = self.status is not None and 400 <= self.status < 500
        return self.is_answer and is_rejected and not self.is_unknown_policy
