"""The constraints of each pip step, which keep it from replacing what was installed before. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.freeze import TRITON, HeldProof, portable_hold
from xpubuild.engine.model import XPUBUILD, Command
from xpubuild.errors import AuditError, UnsatisfiableError, XpuBuildError
from xpubuild.install.context import Context
from xpubuild.machine.pip_failures import explain_pip_failure, not_fetched, not_offered
from xpubuild.machine.python_environment import write_constraints

_CONFLICT = re.compile(r"conflicting dependencies|ResolutionImpossible|The user requested \(constraint\)")
_CONSTRAINT = re.compile(r"The user requested \(constraint\) (\S+)")
#: What else wants a package: the requirement of another, or one that was asked for.
_WANTS = re.compile(r"^\s*(?:\S+ \S+ depends on|The user requested) (?!\(constraint\))(.+)$")
#: pip lists below it what no index has; the conflict that it reports then is none.
_NOT_THERE = "have no matching distributions available"
_DEPENDS = re.compile(r"^\s*(\S+ \S+) depends on (.+)$")


def held_file(context: Context, name: str) -> str:
    """Return the constraints file that says what a component's installation put there."""
    return str(context.layout.build / "held" / f"{name}.txt")


def held_before(context: Context, name: str) -> tuple[str, ...]:
    """Return the files of all components that one needs, directly or not, in the order they are installed."""
    needed: set[str] = set()
    frontier = list(context.component(name).needs)
    while frontier:
        other = frontier.pop()
        if other not in needed:
            needed.add(other)
            frontier.extend(context.component(other).needs)
    return tuple(held_file(context, other) for other in context.choice.components if other in needed)


def constraints(context: Context, name: str) -> tuple[str, ...]:
    """Return the constraints files for the pip commands of a component."""
    return (*known_beforehand(context), *held_before(context, name))


def known_beforehand(context: Context) -> Mapping[str, str]:
    """Return the file (path -> text) with what the recipe itself says; empty where it says nothing.

    Versions of prebuilt wheels are constrained before they are installed. If triton comes under one name, its
    other names are excluded: their wheels contain the same folder.

    Raises:
        UnsatisfiableError: two of the chosen components bring ``triton/``.
    """
    dists = {name: canonicalize_name(context.component(name).dist) for name in context.choice.components}
    triton = [name for name, dist in dists.items() if dist in TRITON]
    if len(triton) > 1:
        raise UnsatisfiableError(
            f"the components {' and '.join(triton)} both contain the package triton/",
            why="the second one would overwrite the first",
            fix=f"exclude one of them: --without {triton[-1]}",
        )
    pins: dict[str, str] = {
        dists[name]: str(context.component(name).version)
        for name in context.choice.components
        if context.component(name).kind == "wheel"
    }
    forbidden = [dist for dist in TRITON if triton and dist != dists[triton[0]]]
    text = write_constraints(pins, forbidden=forbidden)
    return {str(context.layout.build / "held" / "by-the-recipe.txt"): text} if text else {}


def hold_command(context: Context, name: str) -> Command:
    """Return the command, the last of an installation, that writes down what was installed."""
    dist, file = context.component(name).dist, held_file(context, name)
    return Command(
        argv=(XPUBUILD, "plumbing", "hold", str(context.layout.env), dist, file),
        portable=portable_hold(str(context.layout.python), dist, file),
    )


def held_proof(context: Context, name: str, *, own: bool) -> HeldProof:
    """Return the proof for a pip step of a component; ``own`` where it installs the component itself."""
    files = (*held_before(context, name), *((held_file(context, name),) if own else ()))
    return HeldProof(str(context.site_packages), files)


def with_constraints(argv: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """Return a pip command with constraints files."""
    return (*argv, *(word for file in files for word in ("--constraint", file)))


def explain(indexes: Sequence[str] = ()) -> partial[XpuBuildError]:
    """Return what turns the last lines of a pip that was held into the error the user reads."""
    return partial(_explain, indexes=tuple(indexes))


def _explain(tail: Sequence[str], *, indexes: Sequence[str]) -> XpuBuildError:
    held = next((match[1] for line in tail if (match := _CONSTRAINT.search(line))), None)
    if held is None or not any(_CONFLICT.search(line) for line in tail):
        return explain_pip_failure(tail, indexes=indexes)
    if not _excluded(tail, held):
        if unreachable := not_fetched(tail, held):
            return unreachable
        if any(_NOT_THERE in line for line in tail):
            return not_offered(held, indexes)
    wanting = [f"{match[1]} (requires {match[2]})" for line in tail if (match := _DEPENDS.match(line))]
    forbidden = held.endswith("<0")
    name = re.split(r"[=<]", held)[0]
    what = f"{name} must not be installed" if forbidden else f"{held} must be kept"
    return AuditError(
        f"pip would replace a package that this workspace was built with: {what}",
        why="; ".join(wanting) or "a requirement needs another version",
        fix=(
            "use compatible versions in the requirement file, or exclude the component (--without); then "
            "run the same command again"
        ),
        commands=(shlex.join(["xpubuild", "status"]),),
        evidence={"held": held, "wanting": wanting},
    )


def _excluded(tail: Sequence[str], held: str) -> bool:
    """Whether something asks for another version of what is held: then pip would replace it.

    pip ends with the same words where the release that is held is on an index that did not answer.
    """
    kept = _requirement(held)
    pinned = kept.specifier if kept is not None else ()
    version = next((item.version for item in pinned if item.operator == "=="), None)
    if kept is None or version is None:
        return True
    wanted = (match[1] for line in tail if (match := _WANTS.match(line)))
    asked = [item for text in wanted if (item := _requirement(text)) is not None]
    return any(
        canonicalize_name(item.name) == canonicalize_name(kept.name)
        and not item.specifier.contains(version, prereleases=True)
        for item in asked
    )


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text.strip())
    except InvalidRequirement:
        return None
