"""Logs for the tests of explain: excerpts of real failures amid what builds print when all is well."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from support.data_files import loaded

DATA = Path(__file__).resolve().parent.parent / "data" / "explain"


@dataclass(frozen=True)
class Sample:
    """Lines of a real failure or of a run that went well, and what explain has to say of them."""

    id: str
    lines: list[str]
    rule: str | None
    sure: str
    first: str
    url: str


def samples() -> list[Sample]:
    """Return the excerpts of tests/data/explain/failures.yaml."""
    return [
        Sample(
            item["id"], item["log"].rstrip("\n").split("\n"), item.get("rule"), item.get("sure", ""),
            item.get("first", ""), item["url"],
        )
        for item in loaded(DATA / "failures.yaml")
    ]  # fmt: skip


# What a build that works prints: warnings, names with "error" in them, tests that failed on purpose.
_UNITS, _CONFIGURE, _PIP, _WARNINGS = loaded(DATA / "ordinary.yaml").values()
_FLAGS = " ".join(
    (
        "-DAT_PER_OPERATOR_HEADERS -DUSE_XPU",
        *(f"-I../third_party/lib{number}/include" for number in range(20)),
        "-Wall -Werror=return-type -Werror=non-virtual-dtor -Wno-error=redundant-move -O3 -fPIC",
    )
)


def ordinary(count: int, seed: int = 0) -> list[str]:
    """Return ``count`` lines of a build without errors: pip, CMake, ninja, warnings, commands."""
    chance = random.Random(seed)  # noqa: S311
    lines = [chance.choice(_PIP) for _ in range(count // 20)]
    lines += [chance.choice(_CONFIGURE) for _ in range(count // 8)]
    total = count - len(lines)
    for number in range(1, total + 1):
        kind = chance.random()
        if kind < 0.75:
            unit = chance.choice(_UNITS)
            lines.append(
                f"[{number}/{total}] Building CXX object caffe2/CMakeFiles/torch_cpu.dir/__/{unit}.cpp.o"
            )
        elif kind < 0.85:
            unit = chance.choice(_UNITS)
            lines.append(f"/usr/bin/c++ {_FLAGS} -MD -MF {unit}.cpp.o.d -o {unit}.cpp.o -c ../{unit}.cpp")
        else:
            lines.append(chance.choice(_WARNINGS))
    return lines


def embed(sample: list[str], *, before: int = 3000, after: int = 800, seed: int = 0) -> bytes:
    lines = ordinary(before + after, seed)
    return ("\n".join([*lines[:before], *sample, *lines[before:]]) + "\n").encode()
