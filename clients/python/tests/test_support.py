"""The tests' own servers leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys

import pytest
from support import wrong_server


async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize("turns", range(12))
def test_a_connection_is_closed_however_far_it_was_accepted(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    unclosed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: unclosed.append(it.exc_value))

    async def test() -> None:
        async with wrong_server(answer) as url:
            caller = socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])))
            caller.sendall(b"GET / HTTP/1.1\r\n\r\n")
            for _ in range(turns):
                await asyncio.sleep(0)
        caller.close()

    asyncio.run(test())
    gc.collect()
    assert unclosed == []
