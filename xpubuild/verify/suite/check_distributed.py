"""Group ``distributed``: collectives and training between processes."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .registry import DISTRIBUTED, check

_DEADLINE_S = 150.0


def _answers(context: SuiteContext, world: int, device: str, backend: str) -> list[dict[str, Any]]:
    """Run ``world`` ranks and return the last output of each."""
    from .children import python, run_beside

    script = Path(__file__).with_name("ranks.py")
    with tempfile.TemporaryDirectory(prefix="ranks-") as name:
        folder = Path(name)
        commands = [python(script, rank, world, device, backend, folder / "store") for rank in range(world)]
        ended = run_beside(commands, deadline_s=_DEADLINE_S, folder=folder)
    for rank, end in enumerate(ended):
        answer = _answer(end.output)
        if answer is not None and answer["wrong"]:
            raise CheckFailedError(f"rank {rank} of {world} with {backend}: {'; '.join(answer['wrong'])}")
    failed = [(rank, end) for rank, end in enumerate(ended) if not end.ok]
    # Of several, those that were ended because another failed say least.
    for rank, end in sorted(failed, key=lambda pair: pair[1].status == -9):
        raise CheckFailedError(end.describe(f"rank {rank} of {world} with {backend}"))
    context.metric("ranks", world)
    context.note(f"{world} ranks, {backend}")
    answers = [answer for answer in map(_answer, (end.output for end in ended)) if answer is not None]
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


def _answer(output: str) -> dict[str, Any] | None:
    for line in reversed(output.splitlines()):
        if line.startswith('{"rank"'):
            document: dict[str, Any] = json.loads(line)
            return document
    return None


def _require_backend(context: SuiteContext, name: str) -> None:
    """Skip if this torch was built without the backend."""
    distributed = context.torch.distributed
    if not distributed.is_available():
        raise CheckSkippedError("this torch was built without torch.distributed")
    available = getattr(distributed, f"is_{name}_available", None)
    if available is None or not available():
        raise CheckSkippedError(f"this torch was built without {name}")


@check(
    "distributed.gloo",
    "collectives, DDP and FSDP2 between two CPU processes (gloo) are correct",
    suites=DISTRIBUTED,
)
def gloo(context: SuiteContext) -> None:
    """All-reduce in three types, all-gather, broadcast; train by DDP and FSDP2 and compare with float64."""
    _require_backend(context, "gloo")
    answers = _answers(context, 2, "cpu", "gloo")
    require(len(answers) == 2, f"{len(answers)} of 2 ranks returned a result")


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
    answers = _answers(context, number, context.backend.name, context.backend.collective)
    used = {answer["device"] for answer in answers}
    require(len(used) == number, f"{number} ranks ran on {len(used)} devices: {', '.join(sorted(used))}")
