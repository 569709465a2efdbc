"""Starts a subprocess that loads third-party libraries, in the caller's environment, with a timeout."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.doctor.kit import Look
from xpubuild.engine.process import probe
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

#: Timeout for enumeration by a driver; a node with eight cards needs a second or two.
DEADLINE_S = 8.0
#: Shortens the timeout: seconds.
DEADLINE_VARIABLE = "XPUBUILD_DOCTOR_DRIVER_SECONDS"
_LAST_WORDS = 400


@frozen
class Ending:
    """How a subprocess ended: ``how`` is ok, crash, hang, status or missing (it could not be started).

    ``log`` is what it wrote to standard error, ``words`` the end of that.
    """

    how: str
    records: tuple[dict[str, Any], ...] = ()
    text: str = ""
    words: str = ""
    status: int = 0
    log: str = ""

    @property
    def stage(self) -> str:
        """The last stage that the subprocess announced."""
        stages = [str(record["stage"]) for record in self.records if "stage" in record]
        return stages[-1] if stages else "start"

    def value(self, key: str, default: Any = None) -> Any:
        """Return the last value that a record gives a key."""
        return next((record[key] for record in reversed(self.records) if key in record), default)

    def told(self, what: str) -> str:
        """Return how ``what`` ended, as a clause."""
        if self.how == "crash":
            names = {item.value: item.name for item in signal.Signals}
            name = names.get(-self.status, f"signal {-self.status}")
            return f"{what} was killed by {name} in {self.stage}"
        if self.how == "hang":
            return f"{what} timed out in {self.stage}"
        return f"{what} exited with code {self.status}" if self.status else f"{what} ended"


def deadline_s(environ: Mapping[str, str], default: float = DEADLINE_S) -> float:
    """Return the timeout of a subprocess in seconds: the user's, if it is shorter."""
    try:
        requested = float(environ.get(DEADLINE_VARIABLE, ""))
    except ValueError:
        return default
    return min(max(requested, 0.1), default)


def child(
    look: Look, argv: Sequence[str], environ: Mapping[str, str] | None = None, *, seconds: float = DEADLINE_S
) -> Ending:
    """Run a program in the caller's environment (or ``environ``) and return how it ended; never raises."""
    env = dict(look.environ if environ is None else environ)
    try:
        answer = probe(list(argv), env=env, deadline_s=deadline_s(env, seconds))
    except (ToolchainError, OSError, ValueError) as error:
        return Ending("missing", words=str(error))
    ended = "crash" if answer.returncode < 0 else "status" if answer.returncode else "ok"
    how = "hang" if answer.timed_out else ended
    words = answer.stderr.strip()[-_LAST_WORDS:]
    records = tuple(_records(answer.stdout))
    return Ending(how, records, answer.stdout, words, answer.returncode, answer.stderr)


def script(
    look: Look, name: str, environ: Mapping[str, str] | None = None, *, arguments: Sequence[str] = ()
) -> Ending:
    """Run one of the scripts in this folder with the interpreter that runs xpubuild."""
    path = Path(__file__).with_name(name)
    return child(look, [sys.executable, "-I", "-S", str(path), *arguments], environ)


def _records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the lines that are JSON objects; a library may print other lines between them."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            if line.startswith("{") and isinstance(record := json.loads(line), dict):
                yield record
