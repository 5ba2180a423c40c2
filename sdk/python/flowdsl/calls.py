"""Calls of functions that may be async or not."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from typing import Any, Awaitable, Callable


def is_async(function: Any) -> bool:
    """Whether calling it returns a coroutine; sees through partials and objects with ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls an async function on the event loop, and any other one in a thread of its own; awaits what it returns if that is awaitable."""
    result = await (function(*arguments) if is_async(function) else in_thread(function, *arguments))
    return await result if inspect.isawaitable(result) else result


def in_thread(function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
    """Runs a function in a thread of its own.

    A daemon thread, not one of an executor: a function that hangs must not keep the process from ending after the grace period,
    and must not take the thread of another call. The caller bounds the number of calls.
    """
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[Any]" = loop.create_future()
    context = contextvars.copy_context()

    def settle(set_value: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            set_value(value)

    def run() -> None:
        try:
            outcome = future.set_result, context.run(function, *arguments)
        except StopIteration as error:
            # A future refuses StopIteration.
            outcome = future.set_exception, RuntimeError(f"the function raised {error!r}")
        except BaseException as error:  # The caller gets every exception, SystemExit included.
            outcome = future.set_exception, error
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            pass  # The loop was closed: nothing waits for this function.

    threading.Thread(target=run, name=f"node {getattr(function, '__qualname__', '')}", daemon=True).start()
    return future
