"""Real servers on free ports, and fake servers that misbehave."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

import uvicorn

from tidegate.asgi import ASGIApp

CHECKOUT = Path(__file__).resolve().parents[3]
SOURCE = CHECKOUT / "clients/python/src"
# Long enough for the slowest machine.
DEADLINE = 60.0

# Limits that do not refill within a day, so that a test may take as long as it needs.
CONFIG = """
drain: 0s
policies:
  ten: { algorithm: sliding-log, limit: 10/day }
  exact: { algorithm: sliding-log, limit: 500/day }
  plenty: { algorithm: fixed-window, limit: 1000000000/week }
  few: { algorithm: fixed-window, limit: 3/week }
  queue: { algorithm: leaky-bucket, limit: 50/s, max_wait: 1h }
  full: { algorithm: leaky-bucket, limit: 1/h, max_wait: 1s }
  work: { algorithm: concurrency, limit: 2, ttl: 1h }
  signup:
    all:
      - { name: ip, key: ip, algorithm: sliding-log, limit: 3/day }
      - { name: domain, key: email_domain, algorithm: sliding-log, limit: 50/day }
"""


def program() -> str:
    """The binary to test: from the environment, or the debug build."""
    path = os.environ.get("TIDEGATE") or str(CHECKOUT / "target" / "debug" / "tidegate")
    assert Path(path).exists(), f"{path} is missing: cargo build -p tidegate-cli, or set TIDEGATE"
    return path


class Server:
    """A tidegate process."""

    def __init__(self, folder: Path, listen: str | None, config: str | None = CONFIG) -> None:
        arguments = [program(), "serve"]
        if listen is not None:
            arguments += ["--listen", listen]
        if config is not None:
            (folder / "tidegate.yaml").write_text(config)
            arguments += ["--config", "tidegate.yaml"]
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=log)
        self._log = folder / "log"
        self.address = self._announced()

    def _announced(self) -> str:
        assert self._process.stdout is not None
        said, end = b"", time.monotonic() + DEADLINE
        with DefaultSelector() as selector:
            selector.register(self._process.stdout, EVENT_READ)
            while b"\n" not in said:
                assert selector.select(end - time.monotonic()), "the server does not start"
                some = os.read(self._process.stdout.fileno(), 4096)
                assert some, f"the server has ended: {self._log.read_text()}"
                said += some
        return said.split(b"\n")[0].decode().removeprefix("tidegate listens on ")

    def reload(self, config: str) -> None:
        """Give it another configuration. It follows soon."""
        (self._log.parent / "tidegate.yaml").write_text(config)
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        """Stop it gracefully."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@contextmanager
def dead_port() -> Iterator[int]:
    """A port that is bound but has no listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def wrong_server(behave: Handler) -> AsyncIterator[str]:
    """Start a server that reads a request and runs a handler. Return its URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if b"content-length:" in line]
            await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0)
            await behave(reader, writer)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(handle(reader, writer))
        # Also if it is cancelled before it has begun.
        task.add_done_callback(lambda _: writer.close())
        tasks.append(task)

    tasks: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        # Accept no more. What is accepted takes two turns of the loop to `connected`, and a server that is
        # closed meanwhile would lose it.
        asyncio.get_running_loop().remove_reader(server.sockets[0])
        for _ in range(2):
            await asyncio.sleep(0)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def serving(app: ASGIApp, *, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Start a real uvicorn with an application. Return its URL. The socket listens before uvicorn does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family)
    config = uvicorn.Config(app, log_level="error", ws="websockets-sansio")
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        name = f"[{host}]" if ":" in host else host
        yield f"http://{name}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, DEADLINE)
        listener.close()


@contextmanager
def gunicorn(folder: Path, app: str, log: Path, environment: dict[str, str], *options: str) -> Iterator[str]:
    """Start gunicorn with an application in a folder, on a socket that already listens. Return its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        descriptor = listener.fileno()
        arguments = ["--worker-class", "gthread", "--threads", "8", "--workers", "3", "--timeout", "120"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "--bind", f"fd://{descriptor}", *arguments, *options, app],
                cwd=folder,
                env=os.environ | {"PYTHONPATH": f"{SOURCE}:{folder}", "HOME": str(log.parent)} | environment,
                pass_fds=[descriptor],
                stdout=out,
                stderr=out,
            )
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.terminate()
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
