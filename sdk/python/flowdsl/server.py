"""The node server: options, start, stop, and a function that runs one until the process is asked to end."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import ssl
import threading
from typing import Any, Callable, Optional, Union

from .dedupe.base import DedupeStore
from .dedupe.open import open_store
from .delivery import ANSWER_BYTES_MAX
from .http.server import HttpServer
from .registry import Nodes, register
from .service import Service

log = logging.getLogger("flowdsl")

BODY_BYTES_MAX = 10 * 1024 * 1024
#: Connections at a time; more if the limit of invocations is higher.
CONNECTIONS_MAX = 1000


class NodeServer:
    """Serves nodes to a runtime. Options:

    protocol              "http", or "grpc" (needs ``pip install flowdsl[grpc]``)
    host, port            where it listens: 127.0.0.1 and a free port
    token                 callers must send ``Authorization: Bearer <token>``
    tls_cert, tls_key     PEM files: serves https or grpcs
    tls_client_ca             PEM file: callers need a certificate that this authority signed
    dedupe                "memory", "sqlite:PATH", or a DedupeStore: where the answers of keys are kept
    concurrency           invocations at a time
    body_bytes_max        size of a request
    body_seconds          time to send a request
    answer_bytes_max      size of what a node sends
    grace_seconds         time that running invocations have when the server stops
    allow_unauthenticated listens on another address than loopback without token and client certificates

    Raises ValueError or TypeError for an option that is wrong, and a RuntimeError if the dedupe file belongs to another process.
    """

    def __init__(
        self,
        nodes: Nodes,
        *,
        protocol: str = "http",
        host: str = "127.0.0.1",
        port: int = 0,
        token: Optional[str] = None,
        tls_cert: Optional[str] = None,
        tls_key: Optional[str] = None,
        tls_client_ca: Optional[str] = None,
        dedupe: Union[str, DedupeStore] = "memory",
        concurrency: int = 100,
        body_bytes_max: int = BODY_BYTES_MAX,
        body_seconds: float = 30.0,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        grace_seconds: float = 10.0,
        allow_unauthenticated: bool = False,
    ) -> None:
        if protocol not in ("http", "grpc"):
            raise ValueError(f'protocol: must be "http" or "grpc", not {protocol!r}')
        if token is not None and (not isinstance(token, str) or token.strip() == "" or not token.isascii()):
            raise ValueError("token: must be ASCII text that is not empty; leave it out for none")
        if (tls_cert is None) != (tls_key is None):
            raise ValueError("tls_cert and tls_key: give both or neither")
        if tls_client_ca is not None and tls_cert is None:
            raise ValueError("tls_client_ca: needs tls_cert and tls_key")
        for name, value in (("concurrency", concurrency), ("body_bytes_max", body_bytes_max), ("answer_bytes_max", answer_bytes_max)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name}: must be an integer of at least 1, not {value!r}")
        if not _is_loopback(host) and token is None and tls_client_ca is None and not allow_unauthenticated:
            raise ValueError(f"host: {host} is not a loopback address; give a token or tls_client_ca, or set allow_unauthenticated")
        self._nodes = register(nodes)
        self._protocol, self._host, self._port, self._token = protocol, host, port, token
        self._tls = None if tls_cert is None or tls_key is None else (tls_cert, tls_key, tls_client_ca)
        self._dedupe, self._concurrency = dedupe, concurrency
        self._body_bytes_max, self._body_seconds, self._answer_bytes_max = body_bytes_max, body_seconds, answer_bytes_max
        self._grace_seconds = grace_seconds
        self._store: Optional[DedupeStore] = None
        self._service: Optional[Service] = None
        self._listener: Any = None
        self._stopped: "Optional[asyncio.Future[None]]" = None
        #: Where the server is reached, from ``start`` on.
        self.url = ""

    async def start(self) -> str:
        """Opens the dedupe store, listens, and returns the URL."""
        if self._service is not None:
            raise RuntimeError("the server was started already")
        tls = None if self._tls is None else _tls_context(*self._tls)
        # Opening a file may wait for the former process.
        self._store = await asyncio.get_running_loop().run_in_executor(None, open_store, self._dedupe)
        self._service = Service(self._nodes, self._store, self._concurrency, self._token, self._answer_bytes_max)
        try:
            if self._protocol == "grpc":
                from .grpc.server import GrpcServer

                self._listener = GrpcServer(self._service, self._body_bytes_max)
                port = await self._listener.start(self._host, self._port, self._tls)
            else:
                self._listener = HttpServer(self._service, self._body_bytes_max, self._body_seconds, max(CONNECTIONS_MAX, 2 * self._concurrency))
                port = await self._listener.start(self._host, self._port, tls)
        except BaseException:
            await self._close_store()
            raise
        scheme = self._protocol + ("s" if tls else "")
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{scheme}://{host}:{port}"
        return self.url

    async def stop(self) -> None:
        """Stops: no new invocations, running ones have the grace period, then the server and its store close. May be called twice."""
        if self._service is None:
            return
        if self._stopped is not None:
            await asyncio.shield(self._stopped)
            return
        self._stopped = asyncio.get_running_loop().create_future()
        await self._service.drain(self._grace_seconds)
        await self._listener.stop()
        await self._close_store()
        self._stopped.set_result(None)

    async def forget(self, flow_id: str, node_id: str, key: str) -> bool:
        """Removes the kept answer of a key, so that the next invocation calls the node. Returns whether there was one."""
        if self._service is None:
            raise RuntimeError("the server was not started")
        return await self._service.deliveries.forget(flow_id, node_id, key)

    async def _close_store(self) -> None:
        # A store that the user made is the user's to close.
        if self._store is not None and self._store is not self._dedupe:
            await self._store.close()

    async def __aenter__(self) -> "NodeServer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def serve(
    nodes: Nodes, *, on_start: Optional[Callable[[str], None]] = None, until_stdin_closes: bool = False, **options: Any
) -> None:
    """Serves nodes until SIGTERM or SIGINT, then stops with the grace period. A second signal ends the process at once.

    ``on_start`` gets the URL; by default it is printed. ``until_stdin_closes`` also stops when standard input ends: a child process
    that gets a pipe there ends with its parent, however that ends. The other options are those of NodeServer.
    """
    server = NodeServer(nodes, **options)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(_serve(server, on_start or _print_url, until_stdin_closes))
    finally:
        # Not asyncio.run: it waits for every task, and a node that ignores its cancellation would keep the process.
        asyncio.set_event_loop(None)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def _serve(server: NodeServer, on_start: Callable[[str], None], until_stdin_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask() -> None:
        # From here on the default: the next signal ends the process.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(asked.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        # Not add_signal_handler, which Windows does not have. The call wakes the loop.
        signal.signal(number, lambda *_: ask())
    on_start(await server.start())
    if until_stdin_closes:
        threading.Thread(target=_read_to_end, args=(lambda: loop.call_soon_threadsafe(asked.set),), daemon=True).start()
    await asked.wait()
    log.info("the node server stops")
    await server.stop()


def _read_to_end(then: Callable[[], object]) -> None:
    # Not sys.stdin: its lock would be held by this thread when the interpreter ends.
    while os.read(0, 4096):
        pass
    then()


def _print_url(url: str) -> None:
    print(f"nodes at {url}", flush=True)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tls_context(certificate: str, key: str, tls_client_ca: Optional[str]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tls_client_ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if tls_client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
