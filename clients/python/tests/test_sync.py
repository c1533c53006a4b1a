"""The synchronous client: calls, threads, forks, and a server that fails."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from conftest import StartServer
from support import CONFIG, DEADLINE, Server

from tidegate import Check, SyncTidegate, TidegateError

Behave = Callable[[socket.socket], None]


@pytest.fixture
def sync(server: Server) -> Iterator[SyncTidegate]:
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="raise") as one:
        yield one


@contextmanager
def wrong(behave: Behave) -> Iterator[str]:
    """A server that accepts connections, and runs a handler for each. Return its URL."""
    handlers: list[threading.Thread] = []
    open_now: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                open_now.append(listener.accept()[0])
                handlers.append(threading.Thread(target=handle, args=[open_now[-1]]))
                handlers[-1].start()

    def handle(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            behave(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            # Unlike `close`, this wakes a thread that waits in `accept` or `recv`.
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(DEADLINE)
            for connection in open_now:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for handler in handlers:
                handler.join(DEADLINE)


def test_every_call_has_the_answer_of_the_asyncio_client(sync: SyncTidegate, key: str) -> None:
    first = sync.check("ten", key, 4)
    assert (first.allowed, first.limit, first.remaining, first.source) == (True, 10, 6, "store")
    assert first.headers["x-ratelimit-remaining"] == "6"
    denied = sync.check("ten", key, 7)
    assert (denied.allowed, denied.retry_after is not None) == (False, True)
    assert sync.peek("ten", key, 0).remaining == 6
    assert sync.refund("ten", key, 2).remaining == 8
    assert sync.reset("ten", key).remaining == 10
    named = {"ip": key, "email_domain": key}
    assert [sync.check("signup", named).allowed for _ in range(4)] == [True, True, True, False]
    many = sync.check_many([Check("ten", f"{key}-{n}") for n in range(1500)])
    assert len(many) == 1500
    assert all(one.allowed for one in many)
    whole = sync.check_many([Check("ten", key, 11), Check("ten", key)], atomic=True)
    assert [one.allowed for one in whole] == [False, False]
    assert sync.peek("ten", key, 0).remaining == 10
    assert sync.schedule("queue", key).accepted
    assert not sync.reserve("full", key, 9).accepted
    with sync.permit("work", key, 2) as held:
        assert held.allowed
        assert not sync.acquire("work", key).allowed
    again = sync.acquire("work", key, 2)
    assert again.permit is not None
    assert sync.release("work", key, again.permit)
    assert not sync.release("work", key, again.permit)
    assert sync.observe("db", 12, saturation=0.5)
    assert "ten" in sync.policy_names()


def test_a_unix_socket_works(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    start_server(f"unix:{path}", CONFIG)
    with SyncTidegate(socket=path, timeout=DEADLINE, on_error="raise") as client:
        assert [client.check("ten", "k").remaining for _ in range(2)] == [9, 8]


def test_tls_needs_a_trusted_certificate(start_server: StartServer, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    tls = "listen: { http: { address: 127.0.0.1:0, tls: { cert: cert.pem, key: key.pem } } }"
    server = start_server(None, tls + CONFIG)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="raise", ssl=trusting) as client:
        assert [client.check("ten", "k").remaining for _ in range(2)] == [9, 8]
    with SyncTidegate(server.address, timeout=DEADLINE) as client:
        assert "certificate verify failed" in str(client.check("ten", "k").error)


def test_what_the_server_rejects_raises_whatever_on_error_says(server: Server) -> None:
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="allow") as client:
        with pytest.raises(TidegateError) as caught:
            client.check("signup", "k")
        assert (caught.value.status, caught.value.field) == (400, "keys.ip")
        with pytest.raises(ValueError, match="cost: expected a whole number"):
            client.check("ten", "k", -1)
        assert client.fallbacks == 0


def test_invalid_options_raise_at_once() -> None:
    with pytest.raises(ValueError, match="url: expected a URL"):
        SyncTidegate("127.0.0.1:8080")
    with pytest.raises(ValueError, match="on_error: expected allow, deny, raise or local"):
        SyncTidegate(on_error="alow")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="timout"):
        SyncTidegate(timout=1)  # type: ignore[call-arg]


def test_of_600_checks_of_64_threads_exactly_500_are_allowed(server: Server, key: str) -> None:
    client = SyncTidegate(server.address, timeout=DEADLINE, on_error="raise", max_connections=8)
    with client, ThreadPoolExecutor(64) as threads:
        decisions = list(threads.map(lambda _: client.check("exact", key), range(600)))
    assert sum(one.allowed for one in decisions) == 500


def test_at_most_max_connections_are_open_and_the_others_wait() -> None:
    most, open_now, lock = 0, 0, threading.Lock()

    def count(connection: socket.socket) -> None:
        nonlocal most, open_now
        with lock:
            open_now += 1
            most = max(most, open_now)
        while connection.recv(65536):
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    with wrong(count) as url, ThreadPoolExecutor(20) as threads:
        client = SyncTidegate(url, timeout=DEADLINE, max_connections=3)
        sources = list(threads.map(lambda _: client.check("p", "k").source, range(100)))
        client.close()
    assert set(sources) == {"fallback"}  # `{}` is not a decision
    assert 1 <= most <= 3


def say(text: bytes) -> Behave:
    def behave(connection: socket.socket) -> None:
        while connection.recv(65536):
            connection.sendall(text)

    return behave


def close_at_once(connection: socket.socket) -> None:
    connection.close()


def hang(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def drip(connection: socket.socket) -> None:
    """Sends a byte at a time: each read succeeds, and the call as a whole must not."""
    connection.recv(65536)
    for byte in b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000:
        connection.sendall(bytes([byte]))
        time.sleep(0.01)


def flood(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b" " * 99_999_999)


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (hang, "no answer within 0.3 s"),
        (drip, "no answer within 0.3 s"),
        (close_at_once, "no answer: "),
        (say(b"nonsense\r\n\r\n"), "no answer: nonsense"),
        (say(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"), "invalid reply: `allowed` is None"),
        (say(b"HTTP/1.1 502 Bad\r\ncontent-length: 0\r\n\r\n"), "unexpected status 502"),
        (flood, "the reply has more than 2097152 bytes"),
    ],
)
def test_a_server_that_fails_is_a_fallback(behave: Behave, said: str) -> None:
    timeout = 0.3 if behave in (hang, drip) else DEADLINE
    with wrong(behave) as url, SyncTidegate(url, timeout=timeout, on_error="allow") as client:
        allowed = client.check("p", "k")
        assert (allowed.allowed, allowed.source, client.fallbacks) == (True, "fallback", 1)
        assert said in str(allowed.error)
        denied = client.check("p", "k", on_error="deny")
        assert (denied.allowed, denied.retry_after) == (False, 1.0)
        with pytest.raises(TidegateError):
            client.check("p", "k", on_error="raise")


def test_the_circuit_skips_a_server_that_keeps_failing() -> None:
    with wrong(hang) as url, SyncTidegate(url, timeout=0.05) as client:
        errors = [str(client.check("p", "k").error) for _ in range(20)]
    assert errors[:5] == ["no answer within 0.05 s"] * 5
    assert "no answer 5 times in a row (no answer within 0.05 s): no calls for up to 1 s" in errors[5:]


def test_a_server_that_is_down_is_a_fallback(dead_url: str, tmp_path: Path) -> None:
    for client in (SyncTidegate(dead_url), SyncTidegate(socket=tmp_path / "none")):
        with client:
            assert client.check("p", "k").source == "fallback"


def test_a_restart_is_not_noticed_by_idle_connections(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    server = start_server(f"unix:{path}", CONFIG)
    with SyncTidegate(socket=path, timeout=DEADLINE, on_error="raise") as client:
        assert client.check("ten", "k").remaining == 9
        server.stop()
        start_server(f"unix:{path}", CONFIG)
        assert client.check("ten", "k").remaining == 9


def test_a_closed_client_makes_no_calls(server: Server) -> None:
    client = SyncTidegate(server.address)
    client.check("plenty", "k")
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.check("plenty", "k")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_uses_its_own_connections_and_locks(sync: SyncTidegate, key: str) -> None:
    sync.check("plenty", key)
    # A thread of the parent holds the lock of the pool while the child is made.
    pool = sync._pool
    with pool._freed:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                results = [sync.check("exact", key, 2).allowed for _ in range(50)]
                status = 0 if all(results) and sync._pool is not pool else 2
            finally:
                os._exit(status)
    for _ in range(50):
        assert sync.check("exact", f"{key}-parent", 1).allowed
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sync.peek("exact", key, 0).remaining == 400
    assert sync.peek("exact", f"{key}-parent", 0).remaining == 450
