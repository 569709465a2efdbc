"""Work over a tree of repositories: a parent first, then its children, several at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from xpubuild.engine.process import Cancel

T = TypeVar("T")


class LinkedCancel(Cancel):
    """Set by itself or by another; the first failure of one task stops its siblings, not the caller's run."""

    def __init__(self, outer: Cancel | None) -> None:
        super().__init__()
        self._outer = outer

    def __bool__(self) -> bool:
        return super().__bool__() or bool(self._outer)


def one_at_a_time(function: Callable[[str], None]) -> Callable[[str], None]:
    """Return ``function`` for use from several threads."""
    lock = threading.Lock()

    def call(text: str) -> None:
        with lock:
            function(text)

    return call


def visit_all(
    first: T,
    visit: Callable[[T], Iterable[T]],
    *,
    jobs: int,
    cancel: Cancel,
    on_progress: Callable[[int, int, T], None],
) -> list[T]:
    """Call ``visit`` on ``first`` and on everything it returns; return all, in the order they ended.

    ``on_progress`` gets (done, known so far, the one that ended). The first exception sets ``cancel``, waits
    for what still runs, and is raised.
    """
    ended: list[T] = []
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running: dict[Future[list[T]], T] = {}

        def start(item: T) -> None:
            running[pool.submit(lambda: list(visit(item)))] = item

        try:
            start(first)
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    item = running.pop(future)
                    for child in future.result():
                        start(child)
                    ended.append(item)
                    on_progress(len(ended), len(ended) + len(running), item)
        except BaseException:
            cancel.set("another source failed")
            for future in running:
                future.cancel()
            raise
    return ended
