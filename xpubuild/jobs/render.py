"""Jobs and the files of their folder, as text. The scripts' fixed parts are in ``scripts``."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen

Kind = Literal["fetch", "build", "verify", "report"]
Scheduler = Literal["slurm", "pbs"]
KINDS: tuple[Kind, ...] = ("fetch", "build", "verify", "report")
MANIFEST = "jobs.json"
SCHEMA = "xpubuild.jobs-folder/1"
_SCRIPTS = Path(__file__).parent / "scripts"
WORD = re.compile(r"[\w.,:=+@/%-]+", re.ASCII)
_TIME = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)", re.ASCII)
_DIGEST_CHARACTERS = 12
#: Seconds before the limit at which a build is stopped, so that what it made can be kept.
_GRACE_S = 600


@frozen
class Nodes:
    """A kind of nodes, as ``[jobs.KIND]`` of the configuration has it; empty is the scheduler's default.

    ``directives`` are used as they are, such as --constraint=pvc; ``setup`` are lines of shell before the
    work, such as "module load gcc/13".
    """

    partition: str = ""
    account: str = ""
    time: str = ""
    cores: int = 0
    memory: str = ""
    gpus: str = ""
    directives: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    driver: str = ""

    @property
    def seconds(self) -> int:
        """The time limit in seconds; 0 where there is none here."""
        found = _TIME.fullmatch(self.time)
        if found is None:
            return 0
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds

    @property
    def grace(self) -> int:
        """Seconds before the limit at which the scheduler says so."""
        return min(_GRACE_S, self.seconds // 2) if self.seconds else _GRACE_S


def nodes_of(kind: Kind, settings: Mapping[str, object]) -> Nodes:
    """Return a kind of nodes from its settings.

    Raises:
        RecipeError: a value cannot be in a directive.
    """
    values: dict[str, object] = {}
    for name, value in settings.items():
        if isinstance(value, list):
            values[name] = tuple(map(str, value))
            continue
        text = str(int(value)) if name == "cores" and isinstance(value, float) else str(value)
        wrong = "" if WORD.fullmatch(text) else "must be one word, as the scheduler takes it"
        if name == "time" and not _TIME.fullmatch(text):
            wrong = "must be HH:MM:SS or D-HH:MM:SS"
        if name == "cores" and not wrong and int(text) < 1:
            wrong = "must be 1 or more"
        if wrong:
            raise RecipeError(
                f"the configuration has no valid {name} for {kind} jobs",
                why=f'jobs.{kind}.{name} = "{text}": {wrong}',
                fix="correct this value in [jobs] or in the table of the kind",
                commands=("xpubuild config",),
            )
        values[name] = int(text) if name == "cores" else text
    return Nodes(**values)  # type: ignore[arg-type]


@frozen
class Cell:
    """One build: what is fetched, installed and verified, as words of the commands.

    ``steps`` are installed one after the other; together they are all that verification needs. ``workspace``
    is a folder of the shared file system, "" for one of the node's own disk.
    """

    id: str
    recipe: str
    lock_digest: str
    fetch: tuple[str, ...]
    install: tuple[str, ...]
    steps: tuple[str, ...]
    python: str
    device: str
    workspace: str = ""


@frozen
class Proof:
    """The nodes that a build is verified on: a driver and GPUs, "" for what ``Nodes`` say, and how many.

    On two and more the suite distributed runs, over all of them.
    """

    driver: str = ""
    gpus: str = ""
    nodes: str = "1"

    @property
    def words(self) -> tuple[str, ...]:
        """Return what sets it apart from other proofs of a build."""
        number = f"{self.nodes}nodes" if self.nodes != "1" else ""
        return tuple(filter(None, (self.driver, self.gpus, number)))


@frozen
class Job:
    """A job: ``needs`` are done first, ``after`` has only ended. A report is about its ``needs``."""

    name: str
    kind: Kind
    cell: Cell
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    proof: Proof = Proof()

    @property
    def id(self) -> str:
        """Return what its results are about: of a verification, build and node."""
        words = (self.cell.id, *self.proof.words)
        return "-".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", word) for word in words)


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
    proofs: tuple[Proof, ...] = (Proof(),)


def jobs_of(request: Request) -> tuple[Job, ...]:
    """Return the jobs in an order in which each follows what it needs; what is the same is fetched once."""
    jobs: list[Job] = []
    fetches: dict[tuple[str, ...], str] = {}

    def add(job: Job, inputs: Sequence[str]) -> str:
        """Name a job with the digest of lock, step and folder, since results are there; return the name."""
        text = "\0".join((job.kind, request.folder, request.mirror, *inputs, *job.proof.words))
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARACTERS]
        # PBS allows 15 characters.
        short = request.scheduler == "pbs"
        name = f"{job.kind[0]}-{digest}" if short else f"xb-{job.id}-{job.kind}-{digest}"
        jobs.append(replace(job, name=name))
        return name

    for cell in request.cells:
        if request.fetched and cell.fetch not in fetches:
            # A mirror has one writer at a time.
            before = tuple(fetches.values())[-1:]
            fetches[cell.fetch] = add(Job("", "fetch", cell, after=before), cell.fetch)
        needs = (fetches[cell.fetch],) if request.fetched else ()
        build = add(Job("", "build", cell, needs), (cell.lock_digest, *cell.install, *cell.steps))
        proofs = [
            add(Job("", "verify", cell, (build,), proof=proof), (build, cell.device))
            for proof in request.proofs
        ]
        add(Job("", "report", cell, (*needs, build, *proofs)), proofs)
    return tuple(jobs)


def fixed_script(name: str) -> Path:
    """Return a script that every folder has: what is asked of a scheduler, or ``job``."""
    return _SCRIPTS / f"{name}.sh"


def files_of(request: Request) -> dict[str, str]:
    """Return path below the folder -> text. Those of ``jobs/`` and ``submit`` are scripts to be run."""
    jobs = jobs_of(request)
    rows = [
        {"name": job.name, "kind": job.kind, "cell": job.cell.id, "proof": job.id, "needs": list(job.needs)}
        for job in jobs
    ]
    manifest = {"schema": SCHEMA, "made_by": "xpubuild plan", "scheduler": request.scheduler, "jobs": rows}
    templates = Environment(
        loader=FileSystemLoader(_SCRIPTS), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - shell, no markup; what is not ours is quoted or one word
    )  # fmt: skip
    templates.filters |= {"quote": shlex.quote, "words": shlex.join}
    script = templates.get_template("script.j2")
    return {
        MANIFEST: json.dumps(manifest, indent=1) + "\n",
        "lib/job.sh": fixed_script("job").read_text("utf-8"),
        "lib/scheduler.sh": fixed_script(request.scheduler).read_text("utf-8"),
        **{
            f"jobs/{job.name}.sh": script.render(job=job, nodes=_on(job, request), request=request)
            for job in jobs
        },
        "submit": templates.get_template("submit.j2").render(jobs=jobs, request=request),
    }


def _on(job: Job, request: Request) -> Nodes:
    """Return the nodes of a job; ``directives`` or ``setup`` may say what the driver of its proof is."""
    nodes = request.nodes.get(job.kind, Nodes())
    named = any("driver}" in line or "$driver" in line for line in (*nodes.directives, *nodes.setup))
    return replace(
        nodes,
        gpus=job.proof.gpus or nodes.gpus,
        directives=tuple(line.replace("{driver}", job.proof.driver) for line in nodes.directives),
        driver="" if named else job.proof.driver,
    )
