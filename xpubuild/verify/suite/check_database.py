"""Group ``database``: PyTorch's own database of operators, run on the device.

``database.py`` reads the database, ``database_shards.py`` spreads it over processes, ``database_trial.py``
runs one operator in one type, ``database_table.py`` makes the table of states.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import database
from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .database_shards import Limits, Pool
from .database_table import BAD, STATES, Table, known_failures
from .hardware import has_float64
from .references import SAME_ORDER
from .registry import check

_MOST_NAMED = 4
#: The options of the check: ``results`` (folder), ``minutes``, ``operators`` and ``types`` (names),
#: ``accepted`` (a baseline), ``known`` (another list of known failures), ``cell`` (seconds for an operator in
#: a type), ``shards`` (number of processes).
_DEADLINE_S, _CELL_S = 48 * 3600.0, 180.0
_MOST_SHARDS = 4
_REPORT_S = 20.0


@check(
    "database.operators",
    "PyTorch's operator database passes on the device",
    suites=("operators",),
    deadline_s=_DEADLINE_S,
)
def operators(context: SuiteContext) -> None:
    """Run each operator of torch's own database in each type, with gradients, in-place and out= forms."""
    chosen = _chosen(context, database.load())
    facts = _facts(context)
    with tempfile.TemporaryDirectory(prefix="operators-") as scratch:
        folder = Path(context.options.get("results") or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        cells = [(name, kind) for name, kinds in chosen.items() for kind in kinds]
        known = known_failures(Path(context.options["known"]) if "known" in context.options else None)
        run = _Results(folder, Table(cells, facts, _baseline(context), known))
        left = {
            name: [kind for kind in kinds if (name, kind) not in run.there] for name, kinds in chosen.items()
        }
        _run(context, run, [(name, kinds) for name, kinds in left.items() if kinds], Path(scratch))
        _judge(context, run.finish())


def _chosen(context: SuiteContext, infos: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the types of each operator, the most used operators first."""
    wanted = [name for name in context.options.get("operators", "").split(",") if name]
    unknown = [name for name in wanted if name not in infos]
    require(not unknown, f"this torch's database has no operator {', '.join(unknown)}")
    limited = [name for name in context.options.get("types", "").split(",") if name]
    found, lacking = {}, () if has_float64(context) else ("float64", "complex128")
    for name in database.by_use(wanted or list(infos)):
        kinds = database.types_of(context.torch, infos[name], context.backend.name)
        found[name] = [one for one in kinds if one not in lacking and (not limited or one in limited)]
    return {name: kinds for name, kinds in found.items() if kinds}


def _facts(context: SuiteContext) -> dict[str, str]:
    torch, backend = context.torch, context.backend
    if backend.name == "cpu":
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        device, driver = (names or ["CPU"])[0], f"CPU kernels for {torch.backends.cpu.get_cpu_capability()}"
    else:
        properties = context.module.get_device_properties(0)
        driver = str(getattr(properties, "driver_version", "") or "")
        if backend.name == "cuda":  # its properties do not say it; some releases (2.11) do not at all
            ask = getattr(torch._C, "_cuda_getDriverVersion", None)
            driver = f"CUDA {ask() if ask else torch.version.cuda}"
        device = str(properties.name)
    return {"device": device, "type": backend.name, "driver": driver, "torch": str(torch.__version__)}


def _baseline(context: SuiteContext) -> dict[str, Any] | None:
    path = context.options.get("accepted")
    if not path or not Path(path).is_file():
        return None
    found = json.loads(Path(path).read_text("utf-8")).get("operators")
    return dict(found) if found else None


class _Results:
    """The folder with what is known so far: ``results.jsonl``, and in the end the table and the picture."""

    def __init__(self, folder: Path, table: Table) -> None:
        self._folder, self._path = folder, folder / "results.jsonl"
        self.table, self.there = table, set[tuple[str, str]]()
        lines = self._path.read_text("utf-8").splitlines() if self._path.is_file() else []
        head = {"head": table.facts}
        earlier = [one for one in map(_read, lines) if one]
        if earlier and earlier[0] != head:
            raise CheckFailedError(
                f"{self._path} is of another device, driver or torch: pass another folder, or remove it"
            )
        if not earlier:
            self._append(head)
        for record in earlier[1:]:
            self._keep(record)
        self.resumed = len(self.there)

    def _append(self, record: Mapping[str, Any]) -> None:
        # A line that was cut by a power failure is ended, and then ignored.
        with self._path.open("ab+") as stream:
            if stream.tell() and not self._path.read_bytes().endswith(b"\n"):
                stream.write(b"\n")
            stream.write(json.dumps(record).encode() + b"\n")

    def _keep(self, record: Mapping[str, Any]) -> None:
        self.table.add(record)
        self.there.add((record["operator"], record["type"]))

    def add(self, record: Mapping[str, Any]) -> None:
        """Store and keep one cell."""
        self._append(record)
        self._keep(record)

    def finish(self) -> dict[str, Any]:
        """Write the table, and return it."""
        document = self.table.document()
        draft = self._folder / "operators.json.new"
        draft.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        draft.replace(self._folder / "operators.json")
        return document


def _read(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _devices(context: SuiteContext) -> tuple[list[str], dict[str, str]]:
    """Return the device of each shard and the environment of all: two processes per shard share the cores."""
    cores = len(os.sched_getaffinity(0))
    name = context.backend.name
    count = 1 if name == "cpu" else int(context.module.device_count())
    each = max(1, min(_MOST_SHARDS, cores // (2 * count)))
    each = max(1, int(context.options.get("shards", each * count)) // count)
    devices = ["cpu"] if name == "cpu" else [f"{name}:{index}" for index in range(count)]
    # At least two threads: above 2^15 elements or so, kernels divide their work among them.
    threads = str(max(2, cores // (2 * each * count)))
    return devices * each, {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "passive", **SAME_ORDER}


def _run(context: SuiteContext, run: _Results, left: list[tuple[str, list[str]]], scratch: Path) -> None:
    total, last = sum(len(kinds) for _, kinds in left), [time.monotonic(), 0.0]
    bad = [0]

    def on_cell(record: dict[str, Any]) -> None:
        run.add(record)
        last[1] += 1
        bad[0] += record["state"] in BAD
        if record["state"] in BAD or time.monotonic() - last[0] > _REPORT_S:
            last[0] = time.monotonic()
            stated = (
                f": {record['operator']} {record['type']} {record['state']}" if record["state"] in BAD else ""
            )
            context.progress(f"{int(last[1])} of {total}, {bad[0]} bad{stated}")

    minutes = float(context.options.get("minutes", 0) or 0)
    limits = Limits(float(context.options.get("cell", _CELL_S)), minutes * 60 or None)
    devices, env = _devices(context)
    pool = Pool(devices, scratch, limits, on_cell, env)
    pool.run(left)
    run.table.why_not_run("the time of --minutes was over" if minutes else "it was not reached")
    context.metric("shards", len(devices))
    context.metric("restarts", pool.restarts)
    if run.resumed:
        context.note(f"{run.resumed} from an earlier run")


def _judge(context: SuiteContext, document: dict[str, Any]) -> None:
    """Record the counts and fail where a cell is bad and was not accepted before."""
    total = document["total"]
    for state in STATES:
        context.metric(state.replace(" ", "_"), document["states"][state])
    context.metric("total", total)
    context.metric("runs", document["runs"])
    counts = ", ".join(f"{number} {state}" for state, number in document["states"].items() if number)
    stated = f"{document['operators']} operators, {total} pairs of operator and type: {counts}"
    if document["unexpected"]:
        context.warn(f"known failures that pass: {_some(document['unexpected'])}")
    if document["accepted"]:
        context.warn(f"failures that were accepted before: {_some(document['accepted'])}")
    accepted = set(document["accepted"])
    bad = [cell for cell in document["cells"] if cell["state"] in BAD]
    new = [cell for cell in bad if f"{cell['operator']} {cell['type']}" not in accepted]
    if new:
        first = "; ".join(
            f"{one['operator']} {one['type']} {one['state']}: {one['detail']}" for one in new[:_MOST_NAMED]
        )
        more = f"; and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
        before = f"; regressions: {_some(document['regressions'])}" if document["regressions"] else ""
        raise CheckFailedError(f"{stated}{before}; {first}{more}")
    if not document["states"]["passed"]:
        raise CheckSkippedError(f"no pair passed or failed: {stated}")
    context.note(stated)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
