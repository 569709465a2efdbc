"""What a fetch is for: the inputs of a recipe, without a look at what only a build needs.

A machine that fetches is often none that builds: it needs no compiler, oneAPI or GPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import platformdirs
from packaging.specifiers import SpecifierSet

from xpubuild.build.choose import choose
from xpubuild.build.conda_gather import file_name
from xpubuild.build.context import Context
from xpubuild.build.gather import PlanOptions, conda_lock_of, prepare, request_of
from xpubuild.build.inputs import Inputs, inputs_of
from xpubuild.build.locked import options_of, resolved_of
from xpubuild.build.locking import read_lock
from xpubuild.build.planner import requirement_names
from xpubuild.build.request import Compilers, Facts, Layout, Resolved
from xpubuild.build.resolve import resolve
from xpubuild.conda.install import python_version
from xpubuild.conda.lockfile import read_lock as read_conda_lock
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import LockMismatchError, UnsatisfiableError, UsageError
from xpubuild.host.pythons import probe_python
from xpubuild.recipe.load import load, requirement_file
from xpubuild.recipe.model import Recipe
from xpubuild.source.mirror import MirrorStore
from xpubuild.toolchain.pythons import resolve_python

#: CPython lines that wheels of PyTorch or its tools have been made for.
_LINES = tuple(f"3.{minor}" for minor in range(9, 15))
_LOCK_LINE = ("schema: xpubuild.lock/", 'schema: "xpubuild.lock/')
_HEAD_LINES = 20
_NO_COMPILER = Compilers("", "", "0")


@dataclass(frozen=True)
class Wanted:
    """Inputs, the Python versions they are for, and the commits of tags that were looked up: (url, ref)."""

    inputs: Inputs
    pythons: tuple[str, ...]
    named: Mapping[tuple[str, str], str]
    conda_lock: str | None = None


def wanted(
    options: PlanOptions, for_python: str | None, *, store: MirrorStore, cancel: Cancel | None = None
) -> Wanted:
    """Return what the build of ``options`` takes from outside.

    ``for_python`` is "3.10,3.11", "all", or None for the interpreter that ``install`` would take. ``store``
    looks up the commits of branches: in its stocks, and upstream where it is not offline.

    Raises:
        RecipeError, UsageError, UnsatisfiableError, FetchError, ToolchainError.
    """
    if options.recipe is None:
        context = prepare(options, cancel=cancel).context
    elif is_lock(options.recipe):
        return _of_lock(Path(options.recipe), options, for_python, store)
    else:
        context = _context(options, options.recipe, store)
    return _wanted(context, for_python)


def _wanted(context: Context, for_python: str | None) -> Wanted:
    recipe = context.recipe
    pythons = _pythons(recipe, for_python, context.facts.python_version)
    named = {(item.url, item.ref): item.commit for item in context.facts.resolved.values()}
    return Wanted(inputs_of(context), pythons, named, context.facts.conda_lock)


def is_lock(argument: str) -> bool:
    """Whether an argument is the file of a lock; whether that is sound is another question."""
    try:
        with Path(argument).open("r", encoding="utf-8") as stream:
            return any(line.startswith(_LOCK_LINE) for line in islice(stream, _HEAD_LINES))
    except (OSError, UnicodeDecodeError):
        return False


def _of_lock(path: Path, options: PlanOptions, for_python: str | None, store: MirrorStore) -> Wanted:
    """Return what a lock names; where the recipe says otherwise by now, that is told and nothing fetched."""
    lock = read_lock(path)
    asked = options_of(lock, python=options.python)
    beside = path.with_name(file_name(lock.recipe.name))
    conda_lock = options.conda_lock or (beside if asked.env == "conda" and beside.is_file() else None)
    asked = replace(asked, workspace=options.workspace, conda_lock=conda_lock, report=options.report)
    name = asked.recipe or lock.recipe.name
    context = _context(asked, name, store, resolved_of(lock, load(name).recipe))
    found = inputs_of(context)
    pins = {item.component: item.pin.commit for item in (*found.repositories, *found.embedded)}
    texts = {item.name: hashlib.sha256(item.text.encode()).hexdigest() for item in found.requirements}
    locked = {name: item.commit for name, item in lock.repositories.items()}
    files = {name: item.sha256 for name, item in lock.python.requirements.items()}
    for what in sorted({**pins, **locked, **texts, **files}):
        here, there = pins.get(what) or texts.get(what), locked.get(what) or files.get(what)
        if here != there:
            raise LockMismatchError(
                f"the lock {path} is not of recipe '{name}' as it is now: {what} differs",
                why=f"the lock has {there or 'nothing'}, the recipe {here or 'nothing'}",
                fix="take the recipe that the lock was written with, or write a new lock",
                commands=(f"xpubuild lock {name}",),
                evidence={"what": what, "lock": there, "recipe": here},
            )
    return _wanted(context, for_python or lock.options.python.version)


def _context(
    options: PlanOptions,
    recipe_name: str,
    store: MirrorStore,
    locked: Mapping[str, Resolved] | None = None,
) -> Context:
    loaded = load(recipe_name)
    recipe = loaded.recipe
    request = request_of(options, loaded)
    choice, layout = choose(request), Layout(request.workspace)
    resolved: Mapping[str, Resolved] = locked or resolve(
        recipe, choice.components, layout, store=store, update=options.update
    )
    conda = conda_lock_of(_conda_options(options, store), request)
    if conda is None:
        python = probe_python(resolve_python(options.python, base_environment()))
        executable, version = python.executable, python.version
    else:
        executable, version = str(layout.python), python_version(read_conda_lock(conda))
    facts = Facts(
        python=executable,
        python_version=version,
        conda_lock=conda,
        compilers=_NO_COMPILER,
        jobs=1,
        jobs_reason="",
        cache=platformdirs.user_cache_path("xpubuild"),
        requirements={
            name: requirement_file(loaded, name).read_text("utf-8")
            for name in requirement_names(request, choice)
        },
        resolved=resolved,
    )
    return Context(request, choice, facts, layout)


def _conda_options(options: PlanOptions, store: MirrorStore) -> PlanOptions:
    """Return the options for the conda packages: a given lock asks for them, and the mirror may have one."""
    env = "conda" if options.conda_lock is not None else options.env
    return replace(options, env=env, mirror=store.cache, offline=store.offline)


def allowed_pythons(recipe: Recipe) -> tuple[str, ...]:
    """Return the lines of CPython (3.11) that a recipe allows."""
    return _pythons(recipe, "all", "")


def _pythons(recipe: Recipe, given: str | None, own: str) -> tuple[str, ...]:
    needs = SpecifierSet(recipe.needs.python)

    def fits(line: str) -> bool:
        return any(needs.contains(f"{line}.{micro}", prereleases=True) for micro in (0, 99))

    if given == "all":
        return tuple(line for line in _LINES if fits(line))
    if given is None:
        asked = [".".join(own.split(".")[:2])]
    else:
        asked = [item.strip() for item in given.split(",") if item.strip()]
    for line in asked:
        if line.count(".") != 1 or not line.replace(".", "").isdigit():
            raise UsageError(
                f"--for-python takes versions such as 3.10,3.11 or 'all', not '{line}'",
                fix="mend --for-python",
            )
        if not fits(line):
            raise UnsatisfiableError(
                f"Python {line} does not fit recipe '{recipe.name}'",
                why=f"the recipe needs Python {recipe.needs.python}",
                fix="name the versions that will build with --for-python",
                evidence={"found": line, "needs": recipe.needs.python},
            )
    if not asked:
        raise UsageError("--for-python names no version", fix="mend --for-python")
    return tuple(dict.fromkeys(asked))
