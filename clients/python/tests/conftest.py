from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from support import CONFIG, DEADLINE, Server, dead_port

from tidegate import Tidegate


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("server"), "127.0.0.1:0")
    yield one
    one.stop()


StartServer = Callable[..., Server]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers that stop with the test."""
    started: list[Server] = []

    def start(listen: str | None = "127.0.0.1:0", config: str | None = CONFIG) -> Server:
        started.append(Server(tmp_path, listen, config))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Tidegate]:
    """A client with a long timeout that raises instead of falling back."""
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as one:
        yield one


@pytest.fixture
def dead_url() -> Iterator[str]:
    """A URL without a listener."""
    with dead_port() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def dead_redis() -> Iterator[str]:
    """A Redis URL without a listener."""
    with dead_port() as port:
        yield f"redis://127.0.0.1:{port}"


_names = itertools.count()


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"key-{next(_names)}"
