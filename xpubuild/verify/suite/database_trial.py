"""Runs one operator in one type on the device, all its samples, and keeps what came out."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .database import differentiable, objections
from .database_calls import quiet
from .database_compare import WrongError
from .database_forms import Forms
from .database_samples import evenly, samples

#: In-place and out= forms and strided inputs are run for so many samples of a type.
_FORMS = 5
#: With such words a kernel refuses what it is not made for. That a type or a dense kernel is missing is not
#: said with them, and is a failure.
_REFUSED = re.compile(r"only supports? |not supported on |arguments from the 'Sparse\w+' backend")


@dataclass
class Trial:
    """What came out for one operator in one type: runs and problems by part, samples without a reference."""

    runs: collections.Counter[str] = field(default_factory=collections.Counter)
    problems: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    references: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """What the device said where it refused a part of a sample."""
    fell_back: bool = False
    """Whether torch said that it computed on the CPU instead."""

    def attempt(self, aspect: str, what: str, run: Callable[[], None]) -> None:
        """Run one part of one sample, unless this part was wrong before."""
        if aspect in self.problems:
            return
        self.runs[aspect] += 1
        try:
            run()
        except WrongError as wrong:
            self.problems[aspect] = f"{what}: {wrong}"
        except Exception as error:  # noqa: BLE001 - whatever an operator raises is its result
            said = str(error).splitlines()[0] if str(error) else ""
            if isinstance(error, RuntimeError) and _REFUSED.search(said):
                self.runs[aspect] -= 1
                self.refused.append(f"{aspect}: {what}: {said}"[:300])
                return
            self.problems[aspect] = f"{what}: {type(error).__name__}: {said}"[:300]


class Bench:
    """The device, and what all trials on it share."""

    def __init__(self, torch: Any, device: str, synchronize: Callable[[], None], fallback: str = "") -> None:
        self.torch, self.device, self.synchronize, self.fallback = torch, device, synchronize, fallback

    def trial(self, info: Any, dtype: Any, records: list[dict[str, Any]]) -> Trial:
        """Run an operator in one type; ``records`` are the references of its samples."""
        torch, found = self.torch, Trial()
        grad = differentiable(torch, info, dtype, self.device)
        found.left_out = objections(torch, info, dtype, self.device)
        with quiet(self.fallback) as fell_back:
            made = samples(torch, info, dtype, grad=grad)
            if len(made) != len(records):
                raise WrongError(f"{len(made)} samples here, {len(records)} where references are made")
            for number, ((kind, sample), record) in enumerate(zip(made, records)):
                if "fault" in record:
                    found.faults.append(f"{kind} {number}: {record['fault']}")
                    continue
                Forms(self, info, dtype, found, f"{kind} {number}", sample, record).all_forms(
                    forms=evenly(made, number, _FORMS) or kind in ("empty", "large")
                )
            self.synchronize()
        found.fell_back = bool(fell_back)
        return found
