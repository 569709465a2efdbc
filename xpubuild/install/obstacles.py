"""What stops an install before its first step; ``plan`` tells it, ``install`` ends with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.places import existing_quoted
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, NoSpaceError, SourceIntegrityError, XpuBuildError
from xpubuild.install.target import Prepared

_GIB = 1 << 30


def before_steps(
    prepared: Prepared, todo: Collection[str], cancel: Cancel, *, hasty: bool = False
) -> Iterator[XpuBuildError]:
    """Yield why the steps ``todo`` cannot all end well: no space, a wheel that nobody has.

    Nothing is downloaded or written; indexes are asked for the prebuilt wheels that are not installed yet,
    and get little time to answer if ``hasty``.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    if prepared.plan.steps[0].id in todo:
        yield from _space(prepared)
    if not prepared.target.downloads.offline:
        yield from _wheels(prepared, todo, cancel, hasty=hasty)


def foreseen(prepared: Prepared, todo: Collection[str], cancel: Cancel) -> tuple[XpuBuildError, ...]:
    """Return what would stop an install that runs the steps ``todo``; nothing is written.

    Whether the content of a mirror is intact is left to the install: that takes minutes.
    """
    found = [*before_steps(prepared, todo, cancel, hasty=True)]
    if prepared.target.downloads.offline:
        # What reads mirrors and package indexes takes a quarter of a second to import.
        from xpubuild.install.inventory import require_all  # noqa: PLC0415

        done = [step.id for step in prepared.plan.steps if step.id not in todo]
        try:
            require_all(prepared, done, cancel=cancel, bring=False)
        except (FetchError, SourceIntegrityError) as error:
            found.append(error)
    return tuple(found)


def _space(prepared: Prepared) -> Iterator[XpuBuildError]:
    """Yield that the disk is too small for the result."""
    root = Path(prepared.plan.workspace)
    free = prepared.target.host["disk"]["free_bytes"]
    if free is not None and free < prepared.disk_gib * _GIB:
        yield NoSpaceError(
            f"{root} has {free / _GIB:.1f} GiB free, recipe '{prepared.plan.recipe}' needs about"
            f" {prepared.disk_gib:g} GiB",
            why="sources, build trees, the Python environment and wheels are all kept in the workspace",
            fix="free some space, or use a folder on a larger disk with --workspace",
            commands=(f"df -h {existing_quoted(root)}",),
        )


def _wheels(
    prepared: Prepared, todo: Collection[str], cancel: Cancel, *, hasty: bool
) -> Iterator[XpuBuildError]:
    """Yield that the indexes lack a prebuilt wheel of the plan."""
    target = prepared.target
    wanted = [target.component(name) for name in target.components if name in todo]
    if not any(item.kind == "wheel" for item in wanted):
        return
    facts = prepared.target
    if facts.installer.uv is None:
        return  # pip could only download them
    from xpubuild.recipe.prebuilt import prebuilt  # noqa: PLC0415 - for few
    from xpubuild.supply.uv.ask import Asker  # noqa: PLC0415

    environment = {**base_environment(), **facts.downloads.pip}
    asker = Asker(facts.installer.uv, facts.python_version, environment, cancel)
    error = asker.first_lacking(prebuilt(wanted, facts.requirements.__getitem__), hasty=hasty)
    if error is not None:
        yield error
