"""Group ``distributed``: collectives and training between processes."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .registry import DISTRIBUTED, check

#: Of ranks on this node, and on others, which read torch from a file system that they share.
_DEADLINE_S, _FAR_S = 150.0, 560.0
#: Ranks on each node where the device is the CPU.
_ON_CPU = 2


def _answers(
    context: SuiteContext, world: int, backend: str, *,
    device: str = "cpu", nodes: int = 1, launcher: str = "",
) -> list[dict[str, Any]]:  # fmt: skip
    """Run ``world`` ranks here, or with a launcher on the nodes of a job, and return what each says."""
    from .children import python, run_beside

    script, stores = Path(__file__).with_name("ranks.py"), context.torch.distributed
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        folder, more, place = Path(name), dict[str, Any](), f"{name}/store"
        if launcher:
            host = os.environ.get("MASTER_ADDR") or socket.gethostname()
            store = stores.TCPStore(host, 0, is_master=True, wait_for_workers=False)
            place = f"{host}:{store.port}"
            # What this node has in its own folders, others do not have.
            more = {"cwd": Path("/"), "env": {"TMPDIR": "/tmp", "LOCAL_WORLD_SIZE": str(world // nodes)}}  # noqa: S108
        else:
            store = stores.FileStore(place, world)
        numbers = ("-",) if launcher else range(world)
        commands = [
            [*launcher.split(), *python(script, number, world, device, backend, place)] for number in numbers
        ]
        ended = run_beside(commands, deadline_s=_FAR_S if launcher else _DEADLINE_S, folder=folder, **more)
        said = [f"rank {rank}" for rank in range(world) if store.check([f"rank {rank}"])]
        answers = [json.loads(store.get(key)) for key in said]
    for answer in answers:
        if wrong := "; ".join(answer["wrong"]):
            raise CheckFailedError(f"rank {answer['rank']} of {world} with {backend}: {wrong}")
    failed = [(number, end) for number, end in zip(numbers, ended) if not end.ok]
    # Of several, those that were ended because another failed say least.
    for number, end in sorted(failed, key=lambda pair: pair[1].status == -9):
        what = f"rank {number} of {world}" if number != "-" else f"'{launcher}'"
        raise CheckFailedError(end.describe(f"{what} with {backend}"))
    require(len(answers) == world, f"{len(answers)} of {world} ranks returned a result")
    context.metric("ranks", world)
    context.note(f"{world} ranks, {backend}")
    _trained(context, [answer["training"] for answer in answers])
    return answers


def _trained(context: SuiteContext, found: list[dict[str, Any]]) -> None:
    """Judge how far each way of training over ranks is off."""
    from .ranks_training import LAYERS, STEPS, WIDEST
    from .tolerance import network_limit, unit_roundoff

    u = unit_roundoff(context.torch, context.torch.float32)
    # Forward and backward in each step, as if all followed each other.
    limit = network_limit(2 * LAYERS * STEPS, WIDEST, u, u)
    for way in found[0]:
        reasons = {answer[way] for answer in found if isinstance(answer[way], str)}
        if reasons:
            context.note(f"no {way} here: {'; '.join(sorted(reasons))}")
            continue
        context.within(f"{way.lower()}_relative_error", max(answer[way] for answer in found), limit)


def _require_backend(context: SuiteContext, name: str, *, asked: bool = False) -> None:
    """Skip if this torch was built without the backend; fail where it was asked for."""
    distributed, error = context.torch.distributed, CheckFailedError if asked else CheckSkippedError
    if not distributed.is_available():
        raise error("this torch was built without torch.distributed")
    available = getattr(distributed, f"is_{name}_available", None)
    if available is None or not available():
        raise error(f"this torch was built without {name}")


@check(
    "distributed.gloo",
    "collectives, DDP and FSDP2 between two CPU processes (gloo) are correct",
    suites=DISTRIBUTED,
)
def gloo(context: SuiteContext) -> None:
    """All-reduce in three types, all-gather, broadcast; train by DDP and FSDP2 and compare with float64."""
    _require_backend(context, "gloo")
    _answers(context, 2, "gloo")


@check(
    "distributed.all_reduce",
    "collectives, DDP and FSDP2 between all devices with the backend's own library",
    needs=("device.availability", "device.count"),
    suites=DISTRIBUTED,
)
def all_reduce(context: SuiteContext) -> None:
    """Run the same with one rank per device and nccl or xccl."""
    if context.backend.name == "cpu":
        raise CheckSkippedError("distributed.gloo tests the collectives of the CPU")
    _require_backend(context, context.backend.collective)
    number = int(context.module.device_count())
    if number < 2:
        raise CheckSkippedError("needs more than one device")
    answers = _answers(context, number, context.backend.collective, device=context.backend.name)
    used = {answer["device"] for answer in answers}
    require(len(used) == number, f"{number} ranks ran on {len(used)} devices: {', '.join(sorted(used))}")


@check(
    "distributed.nodes",
    "collectives, DDP and FSDP2 between all devices of several nodes",
    suites=("distributed",),
    deadline_s=600,
)
def nodes(context: SuiteContext) -> None:
    """Run the same on --nodes of a job, one rank per device (two per node on the CPU)."""
    number = int(context.options.get("nodes", "1"))
    if number < 2:
        raise CheckSkippedError("needs --nodes N in a job of N nodes")
    backend = context.backend
    _require_backend(context, backend.collective, asked=True)
    each = _ON_CPU if backend.name == "cpu" else int(context.module.device_count())
    words = context.options["launcher"].format(nodes=number, ppn=each, ranks=number * each)
    answers = _answers(
        context, number * each, backend.collective, device=backend.name, nodes=number, launcher=words
    )
    used = Counter(answer["node"] for answer in answers)
    there = ", ".join(f"{count} on {node}" for node, count in sorted(used.items()))
    context.note(f"ranks: {there}")
    require(
        [*used.values()] == [each] * number, f"instead of {each} ranks on each of {number} nodes: {there}"
    )
