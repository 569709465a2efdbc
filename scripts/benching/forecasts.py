"""How wrong the forecast of a build is: ninja's own logs of real builds, replayed with a clock of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpubuild.engine.events import NullSink, StepOutput, StepProgress, StepStarted
from xpubuild.engine.forecast import Estimate, Forecaster, edge_key
from xpubuild.engine.model import Step
from xpubuild.workspace.ninja_log import read

#: Parts of a build at which the forecast is held against what came.
AT = (0.1, 0.25, 0.5, 0.75)
_STEP = "a.wheel"


@dataclass(frozen=True)
class Build:
    """The edges of a build: output, start, end, in seconds after its begin."""

    name: str
    edges: Sequence[tuple[str, float, float]]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(end for _, _, end in self.edges)


def builds(folder: Path) -> list[Build]:
    """Return the builds of the logs in a folder; runs of ninja in one follow each other."""
    found = []
    for path in sorted(folder.glob("*.ninja_log")):
        edges: list[tuple[str, float, float]] = []
        for _, ran in read(path):
            after = max((end for _, _, end in edges), default=0.0)
            edges += [(e.output, after + e.start_s, after + e.start_s + e.duration_s) for e in ran]
        found.append(Build(path.name.removesuffix(".ninja_log"), edges))
    return found


def weights_of(build: Build) -> dict[str, float]:
    """Return the seconds of each edge."""
    return {edge_key(output): end - start for output, start, end in build.edges}


def error_at(
    build: Build, part: float, *, expected: float | None = None, history: Mapping[str, float] | None = None
) -> float | None:
    """Return the error of a forecast, as a part of the whole time, when a part has passed; None: unknown."""
    now = part * build.seconds
    run = Forecaster(
        NullSink(), (Step(_STEP, _STEP),), {_STEP: Estimate(expected)},
        {_STEP: history} if history is not None else {}, clock=lambda: now,
    )  # fmt: skip
    run.emit(StepStarted(0.0, _STEP, _STEP, ""))
    total = len(build.edges)
    run.emit(StepProgress(0.0, _STEP, 0, total, "edges", 0.0, 0.0))
    for done, (output, _, end) in enumerate(sorted(build.edges, key=lambda edge: edge[2]), 1):
        if end > now:
            break
        run.emit(StepOutput(end, _STEP, f"[{done}/{total}] c++ -o {output}"))
        run.emit(StepProgress(end, _STEP, done, total, "edges", 0.0, 0.0))
    told = run.forecast()
    return None if told.unknown else (told.left_s - (build.seconds - now)) / build.seconds


def report(every: Iterable[Build]) -> list[dict[str, Any]]:
    """Return for each build the errors by count, with a guess beforehand, and by an earlier build of it."""
    known = list(every)
    return [
        {
            "build": build.name,
            "edges": len(build.edges),
            "seconds": round(build.seconds, 1),
            "errors": {
                "by count": _errors(build),
                "by count, expected twice as long": _errors(build, expected=2 * build.seconds),
                "by count, expected half as long": _errors(build, expected=build.seconds / 2),
                **{
                    f"by the edges of {other.name}": _errors(
                        build, expected=other.seconds, history=weights_of(other)
                    )
                    for other in known
                    if other is not build and _same(other, build)
                },
            },
        }
        for build in known
    ]


def _same(one: Build, other: Build) -> bool:
    names = [weights_of(item).keys() for item in (one, other)]
    return len(names[0] & names[1]) * 2 > min(map(len, names))


def _errors(build: Build, **known: Any) -> Mapping[str, float | None]:
    found = {f"{part:.0%}": error_at(build, part, **known) for part in AT}
    return {name: None if value is None else round(value, 3) for name, value in found.items()}
