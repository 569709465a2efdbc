"""The files of a folder of jobs, as text. The scripts' fixed parts are in ``scripts``. Pure but for those."""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from xpubuild.jobs.model import Job, Nodes, Request, jobs_of

MANIFEST = "jobs.json"
SCHEMA = "xpubuild.jobs-folder/1"
_SCRIPTS = Path(__file__).parent / "scripts"
_PLACEHOLDER = re.compile(r"@([a-z_]+)@")
#: Seconds before the limit at which a build is stopped, so that what it made can be kept.
_GRACE_S = 600
_OWN_WORKSPACE = '"$place/ws"'


@functools.cache
def _fixed(name: str) -> str:
    return (_SCRIPTS / name).read_text("utf-8")


def script_of(scheduler: str) -> Path:
    """Return the script with what is asked of a scheduler."""
    return _SCRIPTS / f"{scheduler}.sh"


def _filled(name: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match[1]], _fixed(name))


def files_of(request: Request) -> dict[str, str]:
    """Return path below the folder -> text. Those of ``jobs/`` and ``submit`` are scripts to be run."""
    jobs = jobs_of(request)
    manifest = {
        "schema": SCHEMA,
        "made_by": "xpubuild plan",
        "scheduler": request.scheduler,
        "jobs": [
            {"name": job.name, "kind": job.kind, "cell": job.cell.id, "needs": list(job.needs)}
            for job in jobs
        ],
    }
    lines = [_submitted(job) for job in jobs]
    return {
        MANIFEST: json.dumps(manifest, indent=1) + "\n",
        "lib/job.sh": _fixed("job.sh"),
        "lib/scheduler.sh": _fixed(f"{request.scheduler}.sh"),
        **{f"jobs/{job.name}.sh": _script(job, request) for job in jobs},
        "submit": _filled("submit.sh", {"folder": shlex.quote(request.folder), "jobs": "\n".join(lines)}),
    }


def _submitted(job: Job) -> str:
    words = ["report" if job.kind == "report" else "job", job.name, *job.needs]
    return shlex.join(words) + "".join(f" '~{name}'" for name in job.after)


def _script(job: Job, request: Request) -> str:
    nodes = request.nodes.get(job.kind, Nodes())
    directives = _slurm(job, nodes) if request.scheduler == "slurm" else _pbs(job, nodes)
    mark = "#SBATCH " if request.scheduler == "slurm" else "#PBS "
    setup = "\n".join(nodes.setup)
    values = {
        "directives": "\n".join(mark + line for line in directives),
        "title": f"{job.kind} of {job.cell.id}",
        "folder": shlex.quote(request.folder),
        "job": shlex.quote(job.name),
        "kind": job.kind,
        "stop_after_s": str(max(0, nodes.seconds - _grace(nodes))),
        "xpubuild": shlex.join(request.xpubuild),
        "setup": f'{{\n{setup}\n}} || settle "$site_failed"' if setup else ": # no lines of setup",
    }
    return _filled("head.sh", values) + "\n" + _filled(f"{job.kind}.sh", _values(job, request))


def _values(job: Job, request: Request) -> dict[str, str]:
    cell = job.cell
    wheels = f"{request.folder}/wheels/{cell.id}"
    mirror = ("--mirror", request.mirror)
    return {
        "id": job.name.rpartition("-")[2],
        "fetch": shlex.join((*cell.fetch, *mirror)),
        "install": shlex.join((*cell.install, "--offline", *mirror)),
        "steps": shlex.join(cell.steps[:-1]),
        "last": shlex.quote(cell.steps[-1]),
        "workspace": shlex.quote(cell.workspace) if cell.workspace else _OWN_WORKSPACE,
        "cache": shlex.quote(request.cache) if request.cache else '"$place/cache"',
        "wheels": shlex.quote(wheels),
        "requirements": shlex.quote(f"{wheels}/requirements.txt"),
        "python": shlex.quote(cell.python),
        "device": cell.device,
    }


def _grace(nodes: Nodes) -> int:
    return min(_GRACE_S, nodes.seconds // 2) if nodes.seconds else _GRACE_S


def _slurm(job: Job, nodes: Nodes) -> Iterator[str]:
    yield f"--job-name={job.name}"
    yield "--nodes=1 --ntasks=1"
    yield "--requeue --open-mode=append"
    yield f"--signal=B:USR1@{_grace(nodes)}"
    for option, value in (
        ("partition", nodes.partition), ("account", nodes.account), ("time", nodes.time),
        ("cpus-per-task", nodes.cores), ("mem", nodes.memory),
    ):  # fmt: skip
        if value:
            yield f"--{option}={value}"
    if nodes.gpus:
        yield f"--gres=gpu:{nodes.gpus}"
    yield from nodes.directives


def _pbs(job: Job, nodes: Nodes) -> Iterator[str]:
    yield f"-N {job.name}"
    yield "-r y"
    for option, value in (("q", nodes.partition), ("A", nodes.account)):
        if value:
            yield f"-{option} {value}"
    if nodes.seconds:
        minutes, seconds = divmod(nodes.seconds, 60)
        yield f"-l walltime={minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    parts = (("ncpus", nodes.cores), ("mem", nodes.memory), ("ngpus", nodes.gpus))
    yield "-l select=1" + "".join(f":{name}={value}" for name, value in parts if value)
    yield from nodes.directives
