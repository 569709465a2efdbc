"""Slow questions in threads, so that the caller can be stopped while a server does not answer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

from xpubuild.engine.watch import Cancel
from xpubuild.errors import InterruptedByUserError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
WORKERS = 6
_LOOK_EVERY_S = 0.1


def in_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item], cancel: Cancel | None = None
) -> list[_Result]:
    """Return ``work`` of each item, in order, several at a time; the first exception is raised.

    A thread that still waits for a server when ``cancel`` is set is left to its time limit and ends with the
    process: a pool's threads would be waited for.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    tasks: list[tuple[Future[_Result], _Item]] = [(Future(), item) for item in items]
    left: queue.SimpleQueue[tuple[Future[_Result], _Item]] = queue.SimpleQueue()
    for task in tasks:
        left.put(task)
    stop = threading.Event()
    for _ in range(min(WORKERS, len(tasks))):
        threading.Thread(target=_serve, args=(work, left, stop), daemon=True).start()
    try:
        return _results([future for future, _ in tasks], cancel)
    finally:
        stop.set()


def _serve(
    work: Callable[[_Item], _Result],
    left: queue.SimpleQueue[tuple[Future[_Result], _Item]],
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        try:
            future, item = left.get_nowait()
        except queue.Empty:
            return
        try:
            future.set_result(work(item))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
            future.set_exception(error)


def _results(futures: list[Future[_Result]], cancel: Cancel | None) -> list[_Result]:
    while True:
        if cancel:
            raise stopped()
        done, waiting = wait(futures, timeout=_LOOK_EVERY_S, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        if not waiting:
            return [future.result() for future in futures]


def stopped() -> InterruptedByUserError:
    """Return the error of a run that was asked to stop."""
    return InterruptedByUserError(
        "fetching Python files was stopped", fix="run the same command again; what was fetched is kept"
    )
