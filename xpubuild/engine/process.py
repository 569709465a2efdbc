"""Runs commands to their end: long ones, with a log and a listener for their lines, and questions.

``child`` starts them.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from xpubuild.engine import oom
from xpubuild.engine.capture import MOST_OUTPUT_BYTES, Captured
from xpubuild.engine.child import STDOUT, TICK_S, Child, in_memory, prepare, running, spawn
from xpubuild.engine.executables import resolve_executable
from xpubuild.engine.lines import LineReader
from xpubuild.engine.redact import Redactor
from xpubuild.engine.results import ProcessResult, QueryResult
from xpubuild.engine.temporary import scratch_folder
from xpubuild.engine.watch import Cancel, Watch
from xpubuild.errors import NoSpaceError

__all__ = ["Cancel", "ProcessResult", "QueryResult", "probe", "query", "run"]

_ENOSPC = 28
_EDQUOT = 122


def _pump(child: Child, watch: Watch, streams: Mapping[IO[bytes], Callable[[bytes], None]]) -> None:
    """Read until the supervisor has ended and its pipes are empty."""
    with selectors.DefaultSelector() as selector:
        for stream, take in streams.items():
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, take)
        while selector.get_map():
            ended = child.ended()
            ready = selector.select(0 if ended else TICK_S)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if data:
                    key.data(data)
                else:
                    selector.unregister(key.fileobj)
            if ended and not ready:
                # The supervisor was killed, and somebody it could not end still holds the pipe.
                break
            watch.tick()
    while not child.ended():
        watch.tick()
        time.sleep(0.005)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    log: IO[bytes] | None = None,
    on_line: Callable[[str], None] | None = None,
    deadline_s: float | None = None,
    cancel: Cancel | None = None,
    redact: Redactor | None = None,
    hold: Sequence[int] = (),
    on_tick: Callable[[], None] | None = None,
) -> ProcessResult:
    """Run one long command; standard output and error are merged, in order.

    ``env`` is the whole environment. ``hold`` are descriptors (locks) that stay open until the last
    descendant is gone, also when this process is killed. ``on_tick`` is called about twice a second. The exit
    status is a result, not an exception.

    Raises:
        ToolchainError: the program or ``cwd`` is not there, or the program cannot be started.
        NoSpaceError: the log could not be written.
    """
    full = prepare(argv, env, cwd)
    if cancel:
        return ProcessResult(full, -signal.SIGINT, 0.0, cancelled=True)
    killed_before = oom.kills()
    child = spawn(full, env=env, cwd=cwd, stderr=STDOUT, hold=hold)
    reader = LineReader(log, on_line, redact or Redactor.from_environment(env))
    watch = Watch(child, deadline_s, cancel, on_tick)
    with running(child), _space_errors(log):
        if child.process.stdout is not None:
            _pump(child, watch, {child.process.stdout: reader.feed})
        reader.finish()
        if log is not None:
            log.flush()
    child.require_started(tuple(reader.tail))
    return ProcessResult(
        argv=full,
        returncode=child.returncode,
        duration_s=time.monotonic() - watch.started,
        user_s=child.number("user_s"),
        system_s=child.number("system_s"),
        max_rss_bytes=int(child.number("max_rss_bytes")),
        peak_tree_bytes=max(watch.peak, int(child.number("max_rss_bytes"))),
        memory=watch.memory.points(),
        tail=tuple(reader.tail),
        timed_out=watch.timed_out,
        cancelled=watch.cancelled,
        oom_kills=oom.since(killed_before),
    )


@contextlib.contextmanager
def _space_errors(log: IO[bytes] | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (_ENOSPC, _EDQUOT):
            raise
        raise NoSpaceError(
            "no space left while writing a log",
            why=str(error),
            fix="free some space, then run the same command again; finished steps are kept",
            log=Path(log.name) if log is not None and isinstance(log.name, str) else None,
        ) from error


def query(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    deadline_s: float = 30.0,
    cancel: Cancel | None = None,
    most_bytes: int = MOST_OUTPUT_BYTES,
    stdin: bytes = b"",
) -> QueryResult:
    """Run one short command and return its whole output, standard error apart; ``stdin`` is its input.

    A command that prints more than ``most_bytes`` on one of them is killed, and the result says so.

    Raises:
        ToolchainError: the program is not there or cannot be started.
    """
    full = prepare(argv, env, cwd)
    if cancel:
        return QueryResult(full, -signal.SIGINT, "", "", timed_out=True)
    with in_memory(stdin) as given:
        child = spawn(full, env=env, cwd=cwd, stdin=given)
    watch = Watch(child, deadline_s, cancel)
    out, err = Captured(child, most_bytes), Captured(child, most_bytes)
    with running(child):
        streams: dict[IO[bytes], Callable[[bytes], None]] = {}
        if child.process.stdout is not None and child.process.stderr is not None:
            streams = {child.process.stdout: out.take, child.process.stderr: err.take}
        _pump(child, watch, streams)
    child.require_started(err.text.splitlines())
    return QueryResult(
        argv=full,
        returncode=child.returncode,
        stdout=out.text,
        stderr=err.text,
        timed_out=watch.timed_out or watch.cancelled,
        too_long=out.too_long or err.too_long,
    )


def probe(argv: Sequence[str], *, env: Mapping[str, str], deadline_s: float = 30.0) -> QueryResult:
    """Run ``query`` in an empty folder that is removed afterwards, with whatever the program wrote there.

    For programs of the host: some write files into their working directory (``ocloc query NEO_REVISION``),
    and an interpreter imports from it. If no temporary folder can be made, the program runs in ``/``.

    Raises:
        ToolchainError: the program is not there or cannot be started.
    """
    program = resolve_executable(str(argv[0]), env)
    with contextlib.ExitStack() as stack:
        try:
            scratch = stack.enter_context(scratch_folder("probe"))
        except OSError:
            scratch = Path("/")
        return query([program, *argv[1:]], env=env, cwd=scratch, deadline_s=deadline_s)
