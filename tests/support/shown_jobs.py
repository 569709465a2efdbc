"""Folders of job scripts as text, for each scheduler: every script with its directives and commands."""

from __future__ import annotations

from collections.abc import Callable

from xpubuild.jobs.model import Cell, Kind, Nodes, Request, Scheduler
from xpubuild.jobs.render import files_of

_CELLS = (
    Cell(
        id="2.8-py3.12", recipe="2.8", lock_digest="a" * 64, fetch=("2.8", "--with", "vision"),
        install=("2.8", "--with", "vision", "--jobs", "4"), steps=("vision.install", "ops.install"),
        python="/opt/my python/bin/python3", device="xpu",
    ),
    Cell(
        id="other", recipe="other", lock_digest="b" * 64, fetch=("/a folder/other.lock.yaml",),
        install=("--lock", "/a folder/other.lock.yaml"), steps=("torch.install",), python="/usr/bin/python3",
        device="cpu", workspace="/shared/a workspace",
    ),
)  # fmt: skip
_NODES: dict[Kind, Nodes] = {
    "fetch": Nodes(partition="login", time="02:00:00", cores=2),
    "build": Nodes(
        partition="cpu", account="chem", time="1-02:00:00", cores=64, memory="240G",
        setup=("module load gcc/13", "ulimit -c 0"),
    ),
    "verify": Nodes(partition="gpu", time="00:10:00", gpus="1", directives=("--constraint=max",)),
}  # fmt: skip


def _scripts(scheduler: Scheduler, *, fetched: bool) -> str:
    folder = "/shared/it's a folder"
    files = files_of(
        Request(
            scheduler=scheduler, folder=folder, cells=_CELLS if fetched else _CELLS[:1],
            nodes=_NODES if fetched else {}, xpubuild=("/shared/an env/bin/python", "-m", "xpubuild"),
            mirror=f"{folder}/mirror" if fetched else "https://mirror.example.invalid/all",
            fetched=fetched, cache="/home/u/a cache" if fetched else "",
        )
    )  # fmt: skip
    return "".join(f"==== {name}\n{text}" for name, text in files.items() if not name.startswith("lib/"))


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "jobs-slurm": lambda: _scripts("slurm", fetched=True),
    "jobs-slurm-mirrored": lambda: _scripts("slurm", fetched=False),
    "jobs-pbs": lambda: _scripts("pbs", fetched=True),
}
