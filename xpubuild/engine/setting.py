"""What the steps of a run have in common, and what one of them makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.events import Sink
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Step
from xpubuild.engine.process import Cancel
from xpubuild.frozen import frozen

#: Where a child xpubuild leaves its error document.
ERROR_FILE = "XPUBUILD_ERROR_FILE"


@frozen
class Setting:
    """What every step of a run shares."""

    journal: Journal
    sink: Sink
    cancel: Cancel
    workspace: Path
    lock_fd: int
    environment: Mapping[str, str]


def makes(step: Step) -> list[str]:
    """Return the paths that a step makes, as the planner declared them."""
    return [*step.outputs, *step.fresh, *([step.publish.stage] if step.publish else [])]
