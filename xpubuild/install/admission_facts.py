"""Whether the compilers of a build wait for memory, and for how much."""

from __future__ import annotations

from pathlib import Path

from xpubuild.engine import admit
from xpubuild.install.admission import has_launcher, launcher
from xpubuild.install.request import Admission, Choice, Request
from xpubuild.machine.capacity import MemoryFacts
from xpubuild.machine.jobs import JobPlan
from xpubuild.workspace.layout import Layout


def can_wait(request: Request, choice: Choice) -> bool:
    """Return whether builds of this plan have the launcher in front of their compilers."""
    layout, recipe = Layout(request.workspace), request.loaded.recipe
    launched = [name for name in choice.components if has_launcher(recipe, choice, name, layout)]
    return bool(launched) and not any(_without(layout, name) for name in launched)


def _without(layout: Layout, name: str) -> bool:
    """Return whether a build of an earlier xpubuild is continued: upstream does not configure it again."""
    cache = layout.src / name / "build" / "CMakeCache.txt"
    try:
        return str(launcher(layout)) not in cache.read_text("utf-8", "replace")
    except OSError:
        return False


def admission_of(plan: JobPlan, memory: MemoryFacts) -> Admission | None:
    """Return what compilers are admitted by; None where none has to wait."""
    if plan.budget_bytes is None:
        return None
    limited = memory.cgroup_limit_bytes is not None and memory.cgroup_limit_bytes < (memory.total_bytes or 0)
    return Admission(
        budget_bytes=plan.budget_bytes,
        own_group=limited,
        other_jobs=plan.other_jobs,
        program=Path(admit.__file__).read_text("utf-8"),
    )
