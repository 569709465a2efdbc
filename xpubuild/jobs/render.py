"""Jobs and the files of their folder, as text. The scripts' fixed parts are in ``scripts``."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen

Kind = Literal["fetch", "build", "verify", "report"]
Scheduler = Literal["slurm", "pbs"]
KINDS: tuple[Kind, ...] = ("fetch", "build", "verify", "report")
MANIFEST = "jobs.json"
SCHEMA = "xpubuild.jobs-folder/1"
_SCRIPTS = Path(__file__).parent / "scripts"
_PLACEHOLDER = re.compile(r"@([a-z_]+)@")
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
    """The node that a build is verified on: a driver and GPUs; "" for what ``Nodes`` say."""

    driver: str = ""
    gpus: str = ""


_ANY = Proof()


@frozen
class Job:
    """A job: ``needs`` are done first, ``after`` has only ended. A report is about its ``needs``."""

    name: str
    kind: Kind
    cell: Cell
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    proof: Proof = _ANY

    @property
    def id(self) -> str:
        """Return what its results are about: of a verification, build and node."""
        words = (self.cell.id, self.proof.driver, self.proof.gpus)
        return "-".join(re.sub(r"[^A-Za-z0-9_.-]+", "_", word) for word in words if word)


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
    proofs: tuple[Proof, ...] = (_ANY,)

    def job(
        self,
        kind: Kind,
        cell: Cell,
        inputs: Sequence[str],
        needs: tuple[str, ...] = (),
        proof: Proof = _ANY,
    ) -> Job:
        """Return a job, named with the digest of lock, step and folder, since results are there."""
        text = "\0".join((kind, self.folder, self.mirror, *inputs, *filter(None, (proof.driver, proof.gpus))))
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARACTERS]
        # PBS allows 15 characters.
        job = Job(f"{kind[0]}-{digest}", kind, cell, needs, proof=proof)
        return job if self.scheduler == "pbs" else replace(job, name=f"xb-{job.id}-{kind}-{digest}")


def jobs_of(request: Request) -> tuple[Job, ...]:
    """Return the jobs in an order in which each follows what it needs; what is the same is fetched once."""
    jobs: list[Job] = []
    fetches: dict[tuple[str, ...], str] = {}
    for cell in request.cells:
        if request.fetched and cell.fetch not in fetches:
            fetch = request.job("fetch", cell, cell.fetch)
            # A mirror has one writer at a time.
            jobs.append(Job(fetch.name, "fetch", cell, after=tuple(fetches.values())[-1:]))
            fetches[cell.fetch] = fetch.name
        needs = (fetches[cell.fetch],) if request.fetched else ()
        inputs = (cell.lock_digest, *cell.install, *cell.steps)
        build = request.job("build", cell, inputs, needs)
        inputs = (build.name, cell.device)
        proofs = [request.job("verify", cell, inputs, (build.name,), proof) for proof in request.proofs]
        names = tuple(job.name for job in proofs)
        jobs += [build, *proofs, request.job("report", cell, names, (*needs, build.name, *names))]
    return tuple(jobs)


def fixed_script(name: str) -> Path:
    """Return a script that every folder has: what is asked of a scheduler, or ``job``."""
    return _SCRIPTS / f"{name}.sh"


def _filled(name: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match[1]], fixed_script(name).read_text("utf-8"))


def files_of(request: Request) -> dict[str, str]:
    """Return path below the folder -> text. Those of ``jobs/`` and ``submit`` are scripts to be run."""
    jobs = jobs_of(request)
    rows = [
        {"name": job.name, "kind": job.kind, "cell": job.cell.id, "proof": job.id, "needs": list(job.needs)}
        for job in jobs
    ]
    manifest = {"schema": SCHEMA, "made_by": "xpubuild plan", "scheduler": request.scheduler, "jobs": rows}
    lines = [
        shlex.join(["report" if job.kind == "report" else "job", job.name, *job.needs])
        + "".join(f" '~{name}'" for name in job.after)
        for job in jobs
    ]
    return {
        MANIFEST: json.dumps(manifest, indent=1) + "\n",
        "lib/job.sh": fixed_script("job").read_text("utf-8"),
        "lib/scheduler.sh": fixed_script(request.scheduler).read_text("utf-8"),
        **{f"jobs/{job.name}.sh": _script(job, request) for job in jobs},
        "submit": _filled("submit", {"folder": shlex.quote(request.folder), "jobs": "\n".join(lines)}),
    }


def _script(job: Job, request: Request) -> str:
    cell, nodes = job.cell, _on(job.proof, request.nodes.get(job.kind, Nodes()))
    directives = _slurm(job, nodes) if request.scheduler == "slurm" else _pbs(job, nodes)
    setup = "\n".join(nodes.setup)
    wheels, mirror = f"{request.folder}/wheels/{cell.id}", ("--mirror", request.mirror)
    values = {
        "directives": "\n".join(directives),
        "shell": "/bin/bash" if request.scheduler == "slurm" else "/bin/bash -l",
        "title": f"{job.kind} of {job.id}",
        "folder": shlex.quote(request.folder),
        "job": shlex.quote(job.name),
        "kind": job.kind,
        "driver": shlex.quote(job.proof.driver),
        "limit_s": str(nodes.seconds),
        "stop_after_s": str(max(0, nodes.seconds - nodes.grace)),
        "xpubuild": shlex.join(request.xpubuild),
        "setup": f'{{\n{setup}\n}} || settle "$site_failed"' if setup else ": # no lines of setup",
        "id": job.name.rpartition("-")[2],
        "fetch": shlex.join((*cell.fetch, *mirror)),
        "install": shlex.join((*cell.install, "--offline", *mirror)),
        "steps": shlex.join(cell.steps[:-1]),
        "last": shlex.quote(cell.steps[-1]),
        "workspace": shlex.quote(cell.workspace) if cell.workspace else '"$place/ws"',
        "cache": shlex.quote(request.cache) if request.cache else '"$place/cache"',
        "wheels": shlex.quote(wheels),
        "requirements": shlex.quote(f"{wheels}/requirements.txt"),
        "python": shlex.quote(cell.python),
        "device": cell.device,
    }
    return _filled("head", values) + "\n" + _filled(job.kind, values)


def _on(proof: Proof, nodes: Nodes) -> Nodes:
    """Return the nodes of a proof; ``directives`` or ``setup`` may say what a driver is."""
    return replace(
        nodes,
        gpus=proof.gpus or nodes.gpus,
        directives=tuple(line.replace("{driver}", proof.driver) for line in nodes.directives),
        driver="" if any("driver}" in line or "$driver" in line for line in (*nodes.directives, *nodes.setup))
        else proof.driver,
    )  # fmt: skip


def _slurm(job: Job, nodes: Nodes) -> Iterator[str]:
    options = {
        "partition": nodes.partition, "account": nodes.account, "time": nodes.time,
        "cpus-per-task": nodes.cores, "mem": nodes.memory, "gres": nodes.gpus and f"gpu:{nodes.gpus}",
        "constraint": nodes.driver,
    }  # fmt: skip
    lines = (
        f"--job-name={job.name}", "--nodes=1 --ntasks=1", "--requeue --open-mode=append",
        f"--signal=B:USR1@{nodes.grace}",
        *(f"--{option}={value}" for option, value in options.items() if value), *nodes.directives,
    )  # fmt: skip
    yield from (f"#SBATCH {line}" for line in lines)


def _pbs(job: Job, nodes: Nodes) -> Iterator[str]:
    options = {"-q ": nodes.partition, "-A ": nodes.account}
    if nodes.seconds:
        minutes, seconds = divmod(nodes.seconds, 60)
        options["-l walltime="] = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    parts = {"ncpus": nodes.cores, "mem": nodes.memory, "ngpus": nodes.gpus, "driver": nodes.driver}
    select = "".join(f":{name}={value}" for name, value in parts.items() if value)
    lines = (
        f"-N {job.name}", "-r y", *(f"{option}{value}" for option, value in options.items() if value),
        f"-l select=1{select}", *nodes.directives,
    )  # fmt: skip
    yield from (f"#PBS {line}" for line in lines)
