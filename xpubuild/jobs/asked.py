"""``plan --format slurm|pbs``: from options and a matrix to builds, and to a folder of jobs.

A build is words of commands: what the options of ``plan`` request, repeated for each job.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.model import Plan
from xpubuild.errors import UsageError
from xpubuild.install.install import prepare_as_asked
from xpubuild.install.options import Options, is_lock, words_of
from xpubuild.install.target import Prepared
from xpubuild.jobs.folder import PlannedJobsDocument, require_place, write
from xpubuild.jobs.render import KINDS, WORD, Cell, Proof, Request, Scheduler, files_of, jobs_of, nodes_of

_VERIFY = "verify"
#: Key of a matrix -> the option that it is about.
_LISTS = {"recipes": "recipe", "pythons": "python", "variants": "variant", "oneapi": "oneapi_root"}
#: Keys of what builds are verified on.
_PROOFS = {"drivers": "driver", "gpus": "gpus", "nodes": "nodes"}
#: The options that decide what is built, and so what is fetched, as ``words_of`` has them.
_WHAT = {"with_": ",", "without": ",", "target": "", "variant": "", "python": ""}
#: The other options of a build that its jobs are given again.
_HERE = {
    "cxx11_abi": "", "arch": ",", "store": "", "store_read_only": "", "jobs": "", "installer": "",
    "oneapi_root": "", "compile_cache": "", "oneapi_mode": "",
    "extra_path": os.pathsep, "extra_library_path": os.pathsep,
    "allow_dirty": "",
}  # fmt: skip


def planned_jobs(
    options: Options, scheduler: Scheduler, matrix: Sequence[str], output: Path | None, *,
    settings: Mapping[str, Mapping[str, object]], xpubuild: tuple[str, ...], cache: str,
) -> PlannedJobsDocument:  # fmt: skip
    """Plan each build, write the folder and return its document, ``xpubuild.planned-jobs/1``.

    ``settings`` are the tables [jobs.KIND]; ``xpubuild`` are the words that start this xpubuild.

    Raises:
        UsageError, RecipeError: of the options, the matrix or the configuration.
        XpuBuildError: see ``install.resolve``.
    """
    nodes = {kind: nodes_of(kind, settings.get(kind, {})) for kind in KINDS}
    require_possible(options)
    rows: list[dict[str, Any]] = [{}]
    proofs: tuple[Proof, ...] = (Proof(),)
    if matrix:
        given = {"RECIPE": options.recipe, "--workspace": options.workspace}
        if unwanted := [name for name, value in given.items() if value is not None]:
            raise UsageError(
                f"--matrix and {unwanted[0]} cannot be combined",
                why="the matrix names recipes, and each build has a folder of its own",
                fix=f"leave out {unwanted[0]}",
            )
        rows, proofs = matrix_of(matrix)
    if output is not None:
        require_place(output)
    cells = _distinct([_cell(replace(options, **row)) for row in rows])
    name = cells[0].recipe if len({cell.recipe for cell in cells}) == 1 else "matrix"
    folder = output or Path(f"{name}-{scheduler}").absolute()
    # A server's mirror is read-only, and without network nothing is fetched.
    fetched = not options.offline and (options.mirror is None or isinstance(options.mirror, Path))
    request = Request(
        scheduler, str(folder), cells, nodes, xpubuild,
        mirror=str(options.mirror or folder / "mirror"), fetched=fetched, cache=cache,
        proofs=proofs,
    )  # fmt: skip
    write(folder, files_of(request))
    return {
        "schema": "xpubuild.planned-jobs/1",
        "folder": str(folder),
        "scheduler": scheduler,
        "submit": str(folder / "submit"),
        "jobs": [{"name": job.name, "kind": job.kind, "needs": [*job.needs]} for job in jobs_of(request)],
    }


def _cell(options: Options) -> Cell:
    # A folder that the first job is to fill has nothing yet.
    mirror = options.mirror
    empty = isinstance(mirror, Path) and not (mirror.is_dir() and any(mirror.iterdir()))
    asked = replace(options, mirror=None) if empty and not options.offline else options
    return cell_of(options, prepare_as_asked(asked))


def _distinct(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return the builds under names of their own: two files may hold recipes of one name."""
    seen: Counter[str] = Counter()
    found = []
    for cell in cells:
        seen[cell.id] += 1
        found.append(cell if seen[cell.id] == 1 else replace(cell, id=f"{cell.id}.{seen[cell.id]}"))
    return tuple(found)


def require_possible(options: Options) -> None:
    """Refuse what the jobs cannot hand from one node to the next.

    Raises:
        UsageError: naming the option.
    """
    given = {
        "--editable": options.editable,
        "--source-dir": options.source_dir,
        "--quick": options.quick,
        "--packages conda": options.packages == "conda",
    }
    if option := next((name for name, asked in given.items() if asked), None):
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


def cell_of(options: Options, prepared: Prepared) -> Cell:
    """Return the build of a plan that was made from these options."""
    plan = prepared.plan
    recipe = _in_any_folder(options.recipe or plan.recipe)
    locked = str(options.lock_file) if options.lock_file is not None else None
    if locked is None and options.recipe is not None and is_lock(options.recipe):
        locked = recipe = str(Path(options.recipe).absolute())
    elif locked is None and options.locked:
        locked = str(Path(f"{plan.recipe}.lock.yaml").absolute())
    python = options.python and _in_any_folder(options.python, yaml=False)
    what = tuple(words_of(replace(options, python=python), _WHAT))
    here = (*what, *words_of(options, _HERE))
    install = (recipe, *here)
    if locked is not None:
        given = () if options.recipe is None or recipe == locked else (recipe,)
        install = (*given, "--lock", locked, "--lock-policy", options.lock_policy, *here)
    oneapi = "" if options.oneapi_root is None else options.oneapi_root.name.replace("oneapi", "").strip("-_")
    names = (plan.recipe, Path(options.python or "").name, options.variant or "", oneapi)
    return Cell(
        id="-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", name) for name in names if name),
        recipe=plan.recipe,
        lock_digest=plan.lock_digest,
        fetch=(locked or recipe, *what, *(["--update"] if options.update else [])),
        install=install,
        steps=_last_steps(plan),
        python=str(prepared.target.python),
        device=str(plan.summary.get("target", "xpu")),
        workspace=str(options.workspace or ""),
    )


def _in_any_folder(name: str, *, yaml: bool = True) -> str:
    """Return a name as it is, and a path (a recipe's file by its suffix too) from the root."""
    is_file = os.sep in name or (yaml and name.endswith((".yaml", ".yml")))
    return str(Path(name).expanduser().absolute()) if is_file else name


def _last_steps(plan: Plan) -> tuple[str, ...]:
    """Return the steps that together build everything but the verification, which needs another node."""
    later = {_VERIFY}
    for step in plan.steps:
        if later.intersection(step.needs):
            later.add(step.id)
    kept = [step for step in plan.steps if step.id not in later]
    needed = {name for step in kept for name in (*step.needs, *step.tools)}
    return tuple(step.id for step in kept if step.id not in needed)


def matrix_of(words: Sequence[str]) -> tuple[list[dict[str, Any]], tuple[Proof, ...]]:
    """Return the combinations of words such as ``recipes=2.8,2.13`` and ``variants=minimal``, by option.

    And what each is verified on: drivers and GPUs make no builds of their own.

    Raises:
        UsageError: a word is no such list, or no recipe is named.
    """
    lists: dict[str, list[str]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        names = [item.strip() for item in values.split(",") if item.strip()]
        if not equals or key not in (*_LISTS, *_PROOFS) or not names:
            raise _wrong(f"'{word}' is no list")
        if bad := [name for name in names if key in _PROOFS and not WORD.fullmatch(name)]:
            raise _wrong(f"'{bad[0]}' is not one word, as the scheduler takes it")
        if bad := [name for name in names if key == "nodes" and not re.fullmatch(r"[1-9]\d{0,4}", name)]:
            raise _wrong(f"nodes={bad[0]} is no number of nodes")
        lists.setdefault(key, []).extend(names)
    if "recipes" not in lists:
        raise _wrong("it names no recipe")
    rows, proofs = _combined(lists, _LISTS), _combined(lists, _PROOFS)
    for row in rows:
        if root := row.get("oneapi_root"):
            row["oneapi_root"] = Path(root).expanduser().absolute()
    return rows, tuple(Proof(**proof) for proof in proofs)


def _combined(lists: Mapping[str, Sequence[str]], keys: Mapping[str, str]) -> list[dict[str, Any]]:
    used = {keys[key]: values for key, values in lists.items() if key in keys}
    rows = dict.fromkeys(itertools.product(*used.values()))
    return [dict(zip(used, row, strict=True)) for row in rows]


def _wrong(why: str) -> UsageError:
    return UsageError(
        "--matrix cannot be used",
        why=why,
        fix="pass lists: recipes=2.8,2.13, and of pythons, variants, oneapi, drivers, gpus or nodes",
    )
