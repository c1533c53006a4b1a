"""The options of every middleware: values, or functions of the request."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, Union

from .checks import Check, Key, text
from .client import Tidegate
from .fallback import OnError, check_on_error
from .replies import Decision
from .sync import SyncTidegate

T = TypeVar("T")
S = TypeVar("S")
C = TypeVar("C", Tidegate, SyncTidegate)
ValueOrFunction: TypeAlias = Union[T, Callable[[S], T | Awaitable[T]]]  # noqa: UP007 (mypy needs Union here)
# Without async functions, for synchronous frameworks.
Plain: TypeAlias = Union[T, Callable[[S], T]]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """How to check a request of type `S`. Values are validated when the application starts."""

    policy: ValueOrFunction[str, S]
    key: ValueOrFunction[Key | None, S] = None
    cost: ValueOrFunction[int, S] = 1
    skip: ValueOrFunction[bool, S] = False
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        """Raise an error that names the invalid option."""
        if not callable(self.policy):
            text("policy", self.policy)
        key = "any" if callable(self.key) or self.key is None or _is_empty(self.key) else self.key
        Check("any", key, 1 if callable(self.cost) else self.cost)
        if not callable(self.skip) and not isinstance(self.skip, bool):
            raise TypeError(f"skip: expected True, False or a function, got {self.skip!r:.80}")
        if self.on_error is not None:
            check_on_error(self.on_error)

    @property
    def names(self) -> list[str]:
        """The name of the policy, if it is known before a request."""
        return [self.policy] if isinstance(self.policy, str) else []

    async def decide(self, client: Tidegate, request: S, default_key: Callable[[], str]) -> Decision | None:
        """Check a request; None if it is skipped."""
        client.expect_policies(self.names)
        if await resolve(self.skip, request):
            return None
        policy = await resolve(self.policy, request)
        key = await resolve(self.key, request)
        cost = await resolve(self.cost, request)
        counted = default_key() if key is None or _is_empty(key) else key
        return await client.check(policy, counted, cost, headers=True, on_error=self.on_error)

    def decide_sync(
        self, client: SyncTidegate, request: S, default_key: Callable[[], str]
    ) -> Decision | None:
        """Check a request; None if it is skipped."""
        client.expect_policies(self.names)
        if _resolve_sync("skip", self.skip, request):
            return None
        policy = _resolve_sync("policy", self.policy, request)
        key = _resolve_sync("key", self.key, request)
        cost = _resolve_sync("cost", self.cost, request)
        counted = default_key() if key is None or _is_empty(key) else key
        return client.check(policy, counted, cost, on_error=self.on_error)


def check_client(client: object, expected: type[C], place: str) -> C:
    """Return the client, or raise if it is not the one for this framework."""
    if not isinstance(client, expected):
        raise TypeError(
            f"client: {place} needs a tidegate.{expected.__name__}, got {client!r:.80}:"
            f" write {expected.__name__}(URL)"
        )
    return client


def _is_empty(key: Key) -> bool:
    """Whether it stands for no key, e.g. of a visitor. 0 is a key."""
    return isinstance(key, str | Mapping) and not key


async def resolve(given: ValueOrFunction[T, S], subject: S) -> T:
    """The given value, or the result of the given function."""
    if not callable(given):
        return given
    value = given(subject)
    return await value if inspect.isawaitable(value) else value


def _resolve_sync(name: str, given: ValueOrFunction[T, S], subject: S) -> T:
    if not callable(given):
        return given
    value = given(subject)
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"{name}: an async function needs the asyncio client")
    return value


def is_preflight(method: str, header: Callable[[str], object]) -> bool:
    """Whether a browser asks for permission before a cross-origin request.

    It sends no credentials then, and a page cannot read why it was denied: such requests are not counted.
    """
    return method == "OPTIONS" and all(
        header(name) is not None for name in ("origin", "access-control-request-method")
    )
