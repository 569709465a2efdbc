"""``plan --format slurm|pbs``: from what was asked to a folder of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.install.install import prepare_as_asked
from xpubuild.install.options import LockOptions, Options
from xpubuild.jobs.cells import cell_of, require_possible
from xpubuild.jobs.folder import require_place, write
from xpubuild.jobs.matrix import matrix_of
from xpubuild.jobs.model import KINDS, Cell, Request, Scheduler, jobs_of, nodes_of
from xpubuild.jobs.render import files_of

if TYPE_CHECKING:
    from xpubuild.jobs.jobs_json import PlannedJobsDocument


@frozen
class Asked:
    """What the command line and the configuration say about jobs.

    ``settings`` are the tables [jobs.KIND]; ``xpubuild`` are the words that start this xpubuild.
    """

    scheduler: Scheduler
    matrix: tuple[str, ...]
    output: Path | None
    settings: Mapping[str, Mapping[str, object]]
    xpubuild: tuple[str, ...]
    cache: str

    def write(self, options: Options, lock: LockOptions) -> PlannedJobsDocument:
        """Plan each build, write the folder and return its document, ``xpubuild.planned-jobs/1``.

        Raises:
            UsageError, RecipeError: of the options, the matrix or the configuration.
            XpuBuildError: see ``install.resolve``.
        """
        nodes = {kind: nodes_of(kind, self.settings.get(kind, {})) for kind in KINDS}
        require_possible(options)
        rows = self._rows(options)
        if self.output is not None:
            require_place(self.output)
        cells = [self._cell(replace(options, **row), lock) for row in rows]
        name = _name(self.matrix, [cell.recipe for cell in cells])
        folder = self.output or Path(f"{name}-{self.scheduler}").absolute()
        # A server's mirror is read-only, and without network nothing is fetched.
        fetched = not options.offline and (options.mirror is None or isinstance(options.mirror, Path))
        request = Request(
            self.scheduler, str(folder), tuple(_distinct(cells)), nodes, self.xpubuild,
            mirror=str(options.mirror or folder / "mirror"), fetched=fetched, cache=self.cache,
        )  # fmt: skip
        write(folder, files_of(request))
        return {
            "schema": "xpubuild.planned-jobs/1",
            "folder": str(folder),
            "scheduler": self.scheduler,
            "submit": str(folder / "submit"),
            "jobs": [{"name": job.name, "kind": job.kind, "needs": [*job.needs]} for job in jobs_of(request)],
        }

    def _rows(self, options: Options) -> list[dict[str, Any]]:
        if not self.matrix:
            return [{}]
        given = {"RECIPE": options.recipe, "--workspace": options.workspace}
        if unwanted := [name for name, value in given.items() if value is not None]:
            raise UsageError(
                f"--matrix and {unwanted[0]} cannot be combined",
                why="the matrix names recipes, and each build has a folder of its own",
                fix=f"leave out {unwanted[0]}",
            )
        rows = matrix_of(self.matrix)
        return [{name: value for name, value in row._asdict().items() if value is not None} for row in rows]

    @staticmethod
    def _cell(options: Options, lock: LockOptions) -> Cell:
        return cell_of(options, lock, prepare_as_asked(options, lock))


def _name(matrix: Sequence[str], recipes: Sequence[str]) -> str:
    """Return what the folder is named after: the recipe, or the matrix of several."""
    if len(set(recipes)) == 1 and (not matrix or "=" in matrix[0]):
        return recipes[0]
    return "matrix" if "=" in matrix[0] else Path(matrix[0]).stem


def _distinct(cells: Sequence[Cell]) -> list[Cell]:
    """Return the builds under names of their own: two files may hold recipes of one name."""
    found: dict[str, Cell] = {}
    for cell in cells:
        name, number = cell.id, 1
        while name in found:
            number += 1
            name = f"{cell.id}.{number}"
        found[name] = replace(cell, id=name)
    return list(found.values())
