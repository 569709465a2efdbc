"""An earlier run on the same device: its speeds, and which operators passed, to compare with this run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from xpubuild.engine.files import write_atomic
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.verify.model import VerifyReport
from xpubuild.verify.reports import require_places
from xpubuild.verify.suite.database_table import to_accept
from xpubuild.verify.suite.metrics import direction, share

SCHEMA = "xpubuild.verify-baseline/1"
#: Two runs of one build on one device stay within a few percent where nothing else uses it; a tenth is more.
FRACTION = 0.9


@frozen
class Baseline:
    """Speeds by check and metric, and the device they are of."""

    device: str
    torch: str
    speeds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    operators: Mapping[str, Any] | None = None
    """Device, driver and torch of the accepted run of operators, and the cells that passed or were bad."""

    def with_rest_of(self, earlier: Baseline) -> Baseline:
        """Return this baseline with the part that its run did not measure from an earlier one."""
        if earlier.device != self.device:
            return self
        return replace(
            self, speeds=self.speeds or earlier.speeds, operators=self.operators or earlier.operators
        )

    def compare(self, identifier: str, metrics: Mapping[str, Any], device: str | None) -> tuple[str, ...]:
        """Return a warning for each metric of a check that is below ``FRACTION`` of the earlier one.

        Speeds of another device are not compared; the warning says so.
        """
        earlier = self.speeds.get(identifier)
        if not earlier:
            return ()
        if device is not None and device != self.device:
            return (f"the baseline is for {self.device}, but this device is {device}: not compared",)
        return tuple(
            f"{name} is {metrics[name]:.4g}: {share(name, metrics[name], wanted):.0%} of the baseline's "
            f"{wanted:.4g}"
            for name, wanted in earlier.items()
            if isinstance(metrics.get(name), (int, float)) and share(name, metrics[name], wanted) < FRACTION
        )


def of_report(report: VerifyReport) -> Baseline:
    """Return the speeds in a report."""
    speeds = {
        check.id: {
            name: float(value)
            for name, value in check.metrics.items()
            if direction(name) and isinstance(value, (int, float))
        }
        for check in report.checks
        if check.status == "pass"
    }
    return Baseline(
        device=str(report.device.get("name", "")),
        torch=str(report.torch.get("version", "")),
        speeds={identifier: found for identifier, found in speeds.items() if found},
        operators=to_accept(report.operators) if report.operators else None,
    )


def write(baseline: Baseline, path: Path) -> None:
    """Write the document that ``read`` reads.

    Raises:
        NoSpaceError: there is no room for it.
    """
    document = {
        "schema": SCHEMA,
        "device": baseline.device,
        "torch": baseline.torch,
        "speeds": {identifier: dict(found) for identifier, found in baseline.speeds.items()},
        **({"operators": dict(baseline.operators)} if baseline.operators else {}),
    }
    write_atomic(path, (json.dumps(document, indent=1) + "\n").encode())


def update(report: VerifyReport, path: Path) -> None:
    """Write the baseline of a report; what its suite did not measure stays as it was for the same device.

    Raises:
        UsageError: the file is there and is no baseline.
        NoSpaceError: there is no room for it.
    """
    made = of_report(report)
    write(made.with_rest_of(read(path)) if path.is_file() else made, path)


def before(path: Path | None, *, update: bool) -> Baseline | None:
    """Return the baseline to compare a run with; one to ``update`` must be usable too, or not there yet.

    Raises:
        UsageError: the file is not a baseline.
        NoSpaceError, ToolchainError: it cannot be written.
    """
    if path is None or not update:
        return None if path is None else read(path)
    if os.path.lexists(path):
        read(path)
    require_places(path)
    return None


def read(path: Path) -> Baseline:
    """Return a stored baseline.

    Raises:
        UsageError: the file does not exist or is not a baseline.
    """
    try:
        document = json_value(read_bytes(path))
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    except ValueError as error:
        raise _unusable(path, f"it is not valid JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise _unusable(path, f"its schema is not {SCHEMA}")
    try:
        speeds = {
            str(identifier): {str(name): float(value) for name, value in found.items()}
            for identifier, found in document["speeds"].items()
        }
        return Baseline(
            str(document["device"]), str(document["torch"]), speeds, _operators(document.get("operators"))
        )
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise _unusable(path, f"it has an invalid part: {error!r}") from error


def _operators(document: Any) -> dict[str, Any] | None:
    if document is None:
        return None
    texts = {name: str(document[name]) for name in ("device", "driver", "torch")}
    return {**texts, **{name: [str(cell) for cell in document[name]] for name in ("passed", "bad")}}


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} cannot be used as a baseline",
        why=why,
        fix="use another file, or remove this one and let the same command make it, with --update-baseline",
    )
