"""What went wrong. A refusal did not: it is a `Decision`."""

from __future__ import annotations

OURS = "urn:tidegate:"


class TidegateError(Exception):
    """Trouble: the server did not answer, or what it answered is no decision.

    `detail` says what is wrong. If the server has said so itself, `status` is the answer's, `type`
    its kind, as in `urn:tidegate:unknown-policy`, and `field` the field that it does not like.
    """

    def __init__(
        self,
        detail: str,
        status: int | None = None,
        type: str | None = None,  # noqa: A002 (as RFC 9457 calls it)
        field: str | None = None,
    ) -> None:
        # All of it, so that a copy has all of it.
        super().__init__(detail, status, type, field)
        self.detail = detail
        self.status = status
        self.type = type
        self.field = field

    def __str__(self) -> str:
        """Say the detail, and the status if there is one."""
        return self.detail if self.status is None else f"{self.detail} (status {self.status})"

    @property
    def is_answer(self) -> bool:
        """Whether a tidegate has said so itself: then it is there, whatever it says."""
        return self.type is not None and self.type.startswith(OURS)

    @property
    def is_mistake(self) -> bool:
        """Whether the question was wrong, as a policy is that nobody has configured.

        It is raised whatever `on_error` says: to ask again or elsewhere would not help.
        """
        return self.is_answer and self.status is not None and 400 <= self.status < 500
