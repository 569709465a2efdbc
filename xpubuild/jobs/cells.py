"""A build as words of commands: what the options of ``plan`` ask for, said again to each job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from xpubuild.engine.model import Plan
from xpubuild.errors import UsageError
from xpubuild.install.options import LockOptions, Options
from xpubuild.install.target import Prepared
from xpubuild.jobs.model import Cell

_VERIFY = "verify"
#: The options of a build that its jobs are given again -> what joins their words; "" where they are repeated.
_OF_HOST = {
    "cxx11_abi": "", "arch": ",", "store": "", "store_read_only": "", "jobs": "", "installer": "",
    "oneapi_root": "", "compile_cache": "", "compile_cache_remote": "", "oneapi_mode": "",
    "extra_path": os.pathsep, "extra_library_path": os.pathsep,
    "portable": "", "runtime": "", "allow_dirty": "",
}  # fmt: skip


def require_possible(options: Options) -> None:
    """Refuse what the jobs cannot hand from one node to the next.

    Raises:
        UsageError: naming the option.
    """
    if options.editable or options.packages == "conda":
        option = "--editable" if options.editable else "--packages conda"
        raise UsageError(
            f"{option} cannot be built by jobs",
            why="a build node hands wheels to the node that verifies them, not an environment",
            fix=f"leave out {option}, or run 'xpubuild install' in a job of your own",
        )
    if options.allow_dirty and options.workspace is None:
        raise UsageError(
            "jobs cannot build local changes without --workspace",
            why="each job would make a workspace of its own, with sources that have no changes",
            fix="pass the workspace that has them with --workspace, on a file system that all nodes share",
        )


def cell_of(options: Options, lock: LockOptions, prepared: Prepared) -> Cell:
    """Return the build of a plan that was made from these options."""
    plan = prepared.plan
    recipe = _recipe(options, plan)
    locked = _lock(options, lock, plan)
    what = (*_choices(options), *_python(options))
    here = (*what, *_of_host(options))
    install = (recipe, *here)
    if locked is not None:
        given = () if options.recipe is None or recipe == locked else (recipe,)
        install = (*given, "--lock", locked, "--lock-policy", lock.policy, *here)
    return Cell(
        id=_id(plan, options),
        recipe=plan.recipe,
        lock_digest=plan.lock_digest,
        fetch=(locked or recipe, *what, *(["--update"] if options.update else [])),
        install=install,
        steps=last_steps(plan),
        python=str(prepared.target.python),
        device=str(plan.summary.get("target", "xpu")),
        workspace=str(options.workspace or ""),
    )


def last_steps(plan: Plan) -> tuple[str, ...]:
    """Return the steps that together bring everything but the verification, which needs another node."""
    later = {_VERIFY}
    for step in plan.steps:
        if later.intersection(step.needs):
            later.add(step.id)
    kept = [step for step in plan.steps if step.id not in later]
    needed = {name for step in kept for name in (*step.needs, *step.tools)}
    return tuple(step.id for step in kept if step.id not in needed)


def _recipe(options: Options, plan: Plan) -> str:
    given = options.recipe
    if given is None:
        return plan.recipe
    is_file = os.sep in given or given.endswith((".yaml", ".yml"))
    return str(Path(given).expanduser().absolute()) if is_file else given


def _lock(options: Options, lock: LockOptions, plan: Plan) -> str | None:
    from xpubuild.install.options import is_lock  # noqa: PLC0415 - a look into the file

    if lock.file is not None:
        return str(lock.file)
    if options.recipe is not None and is_lock(options.recipe):
        return str(Path(options.recipe).absolute())
    return str(Path(f"{plan.recipe}.lock.yaml").absolute()) if lock.locked else None


def _choices(options: Options) -> Iterator[str]:
    """Yield what decides what is built, and so what is fetched."""
    yield from _named("--with", options.with_)
    yield from _named("--without", options.without)
    for name, value in (("--target", options.target), ("--variant", options.variant)):
        if value is not None:
            yield from (name, value)


def _python(options: Options) -> Iterator[str]:
    if options.python is not None:
        python = Path(options.python).expanduser()
        yield from ("--python", str(python.absolute()) if os.sep in options.python else options.python)


def _of_host(options: Options) -> Iterator[str]:
    """Yield what only the build asks for, where it is not the default."""
    plain = Options(None)
    for name, joined in _OF_HOST.items():
        value = getattr(options, name)
        if value == getattr(plain, name):
            continue
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            yield option if value else f"--no-{name.replace('_', '-')}"
        elif isinstance(value, tuple):
            words = [str(word) for word in value]
            for word in [joined.join(words)] if joined else words:
                yield from (option, word)
        else:
            yield from (option, str(value))


def _named(option: str, names: Iterable[str]) -> Iterator[str]:
    if words := ",".join(names):
        yield from (option, words)


def _id(plan: Plan, options: Options) -> str:
    parts = [plan.recipe, Path(options.python).name if options.python else "", options.variant or ""]
    return "-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", part) for part in parts if part)
