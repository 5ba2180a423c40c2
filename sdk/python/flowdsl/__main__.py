"""The command ``python -m flowdsl``: serve nodes, forget the answer of a key."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import sys
from typing import Any, List, Optional

from .dedupe import DedupeKey, SqliteDedupeStore
from .server import serve
from .version import VERSION

TOKEN_VARIABLE = "ONCEFLOW_NODE_TOKEN"


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs a command. Returns the exit code: 0, 1 if there is nothing to forget, 2 if the command line is wrong."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        print(f"flowdsl: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flowdsl", description="Nodes of flow graphs in Python.")
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(dest="command", required=True)

    run = commands.add_parser("serve", help="serve nodes until SIGTERM or Ctrl-C")
    run.add_argument("nodes", help="module:attribute, such as shop.nodes:nodes: a list of nodes, a node, or functions by operationId")
    run.add_argument("--protocol", choices=["http", "grpc"], default="http")
    run.add_argument("--host", default="127.0.0.1", help="another address than loopback needs a token or --tls-client-ca")
    run.add_argument("--port", type=int, default=0, help="0 (default) takes a free port")
    run.add_argument("--dedupe", default="memory", help="memory (default) or sqlite:PATH: where answers of keys are kept")
    run.add_argument("--concurrency", type=int, default=100, help="invocations at a time (100)")
    run.add_argument("--token-file", help=f"file with the token of callers; or set {TOKEN_VARIABLE}")
    run.add_argument("--tls-cert", help="PEM file")
    run.add_argument("--tls-key", help="PEM file")
    run.add_argument("--tls-client-ca", help="PEM file: callers need a certificate that this authority signed")
    run.add_argument("--grace-seconds", type=float, default=10.0, help="time for running invocations when the server stops (10)")
    run.add_argument("--allow-unauthenticated", action="store_true", help="listen on another address without token or certificates")
    run.add_argument("--until-stdin-closes", action="store_true", help="also stop when standard input ends")
    run.set_defaults(run=_serve)

    forget = commands.add_parser("forget", help="remove the kept answer of a key, so that the next invocation calls the node")
    forget.add_argument("--dedupe", required=True, help="sqlite:PATH; the server may run")
    forget.add_argument("--flow", required=True, help="flowId")
    forget.add_argument("--node", required=True, help="nodeId")
    forget.add_argument("--key", required=True, help="idempotency key")
    forget.set_defaults(run=_forget)
    return parser


def _serve(options: Any) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # As `python module.py` does: modules of the current folder can be imported.
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    serve(
        _nodes(options.nodes),
        protocol=options.protocol,
        host=options.host,
        port=options.port,
        dedupe=options.dedupe,
        concurrency=options.concurrency,
        token=_token(options.token_file),
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
        tls_client_ca=options.tls_client_ca,
        grace_seconds=options.grace_seconds,
        allow_unauthenticated=options.allow_unauthenticated,
        until_stdin_closes=options.until_stdin_closes,
    )
    return 0


def _nodes(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if colon == "" or attribute == "":
        raise ValueError(f"{name}: must be module:attribute, such as shop.nodes:nodes")
    found = importlib.import_module(module)
    if not hasattr(found, attribute):
        raise ValueError(f"module {module} has no attribute {attribute}")
    nodes = getattr(found, attribute)
    return nodes if isinstance(nodes, (list, tuple, dict)) else [nodes]


def _token(file: Optional[str]) -> Optional[str]:
    """Never an argument of the command line: other users of the machine could read it there."""
    if file is not None:
        with open(file, encoding="utf-8") as text:
            return text.read().strip()
    return os.environ.get(TOKEN_VARIABLE) or None


def _forget(options: Any) -> int:
    path = options.dedupe[len("sqlite:") :] if options.dedupe.startswith("sqlite:") else ""
    if not os.path.isfile(path):
        raise ValueError(f"--dedupe: {options.dedupe} must be sqlite:PATH of an existing file")

    async def forget() -> bool:
        store = SqliteDedupeStore(path, exclusive=False)
        try:
            return await store.forget(DedupeKey(options.flow, options.node, options.key))
        finally:
            await store.close()

    found = asyncio.run(forget())
    print("forgotten: the next invocation with this key calls the node" if found else "no answer is kept for this key")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
