"""What jobs are made of: kinds of nodes, builds, and the jobs themselves. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen

Kind = Literal["fetch", "build", "verify", "report"]
Scheduler = Literal["slurm", "pbs"]
KINDS: tuple[Kind, ...] = ("fetch", "build", "verify", "report")

_WORD = re.compile(r"[\w.,:=+@/%-]+", re.ASCII)
_TIME = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)", re.ASCII)
_DIGEST_CHARACTERS = 12


@frozen
class Nodes:
    """A kind of nodes, as ``[jobs.KIND]`` of the configuration has it; empty is the scheduler's default."""

    partition: str = ""
    account: str = ""
    time: str = ""
    cores: int = 0
    memory: str = ""
    gpus: str = ""
    #: Directives as they are, such as --constraint=pvc.
    directives: tuple[str, ...] = ()
    #: Lines of shell before the work, such as "module load gcc/13".
    setup: tuple[str, ...] = ()

    @property
    def seconds(self) -> int:
        """The time limit in seconds; 0 where there is none here."""
        found = _TIME.fullmatch(self.time)
        if found is None:
            return 0
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def nodes_of(kind: Kind, settings: Mapping[str, object]) -> Nodes:
    """Return a kind of nodes from its settings.

    Raises:
        RecipeError: a value cannot be in a directive.
    """
    values: dict[str, object] = {}
    for name, value in settings.items():
        if name in ("setup", "directives"):
            values[name] = tuple(map(str, value)) if isinstance(value, list) else ()
            continue
        if name == "cores" and isinstance(value, float):
            value = int(value)  # noqa: PLW2901
        text = str(value)
        if not _WORD.fullmatch(text) or (name == "cores" and int(text) < 1):
            raise _wrong(kind, name, text, "must be one word, as the scheduler takes it")
        if name == "time" and not _TIME.fullmatch(text):
            raise _wrong(kind, name, text, "must be HH:MM:SS or D-HH:MM:SS")
        values[name] = value if name == "cores" else text
    return Nodes(**values)  # type: ignore[arg-type]


def _wrong(kind: Kind, name: str, value: str, what: str) -> RecipeError:
    return RecipeError(
        f"the configuration has no valid {name} for {kind} jobs",
        why=f'jobs.{kind}.{name} = "{value}": {what}',
        fix="correct this value in [jobs] or in the table of the kind",
        commands=("xpubuild config",),
    )


@frozen
class Cell:
    """One build: what is fetched, installed and verified, as words of the commands.

    ``steps`` are installed one after the other; together they are all that verification needs.
    """

    id: str
    recipe: str
    lock_digest: str
    fetch: tuple[str, ...]
    install: tuple[str, ...]
    steps: tuple[str, ...]
    python: str
    device: str
    #: A folder of the shared file system, "" for one of the node's own disk.
    workspace: str = ""


@frozen
class Job:
    """A job: ``needs`` are done first, ``after`` has only ended. A report is about its ``needs``."""

    name: str
    kind: Kind
    cell: Cell
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@frozen
class Request:
    """Everything that decides the folder's files.

    ``mirror`` is a folder or the URL of a server, ``fetched`` whether jobs fill it. ``cache`` is that of the
    user who planned, "" for one on the node's own disk.
    """

    scheduler: Scheduler
    folder: str
    cells: tuple[Cell, ...]
    nodes: Mapping[Kind, Nodes]
    xpubuild: tuple[str, ...]
    mirror: str
    fetched: bool
    cache: str = ""


def jobs_of(request: Request) -> tuple[Job, ...]:
    """Return the jobs in an order in which each follows what it needs; what is the same is fetched once."""
    jobs: list[Job] = []
    fetches: dict[tuple[str, ...], str] = {}
    for cell in request.cells:
        needs: tuple[str, ...] = ()
        if request.fetched:
            if cell.fetch not in fetches:
                name = _name("fetch", cell, request, cell.fetch)
                # A mirror has one writer at a time.
                jobs.append(Job(name, "fetch", cell, after=tuple(fetches.values())[-1:]))
                fetches[cell.fetch] = name
            needs = (fetches[cell.fetch],)
        build = _name("build", cell, request, (cell.lock_digest, *cell.install, *cell.steps))
        verify = _name("verify", cell, request, (build, cell.device))
        jobs.append(Job(build, "build", cell, needs))
        jobs.append(Job(verify, "verify", cell, (build,)))
        report = _name("report", cell, request, (verify,))
        jobs.append(Job(report, "report", cell, (*needs, build, verify)))
    return tuple(jobs)


def _name(kind: Kind, cell: Cell, request: Request, inputs: Sequence[str]) -> str:
    """Return a name with the digest of lock and step; the folder is part of it, since results are there."""
    text = "\0".join((kind, request.folder, request.mirror, *inputs))
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARACTERS]
    # PBS allows 15 characters.
    return f"{kind[0]}-{digest}" if request.scheduler == "pbs" else f"xb-{cell.id}-{kind}-{digest}"
