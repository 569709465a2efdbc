"""Makes the look of a run: the machine, the selected interpreter, the recipe."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.doctor.kit import Look, Profile
from xpubuild.engine.child import resolve_executable
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.machine.readers import LIVE_ROOT, exists, inside

if TYPE_CHECKING:
    from xpubuild.machine.host_report import HostReport
    from xpubuild.recipe.values import Target

# Every program that the report runs has 10 s; only a file system can hang longer.
_HOST_DEADLINE_S = 25.0
# Set by `eval "$(xpubuild env)"`.
_ENTERED = "XPUBUILD_ENTERED"


def begin(
    environ: Mapping[str, str],
    *,
    root: Path = LIVE_ROOT,
    recipe: str | None = None,
    target: Target | None = None,
    python: str | None = None,
    workspace: Path | None = None,
    profiles: Collection[Profile] = ("build", "run"),
) -> Callable[[], Look]:
    """Start to read the machine's properties; return a function that waits for them and returns the look.

    In between the caller can do other slow work, such as importing the checks.

    Raises:
        UsageError: ``root`` is no folder, or there is a ``target`` and no recipe.
        UnsatisfiableError: ``target`` is not one of the recipe.
        RecipeError: the recipe cannot be used.
        ToolchainError: the selected interpreter does not exist, or (from the returned function) reading the
            machine's properties timed out.
    """
    live = root == LIVE_ROOT
    if not live and not root.is_dir():
        raise UsageError(
            f"{root} is not a folder", fix="pass the folder of an unpacked image or of a recorded file tree"
        )
    given = dict(environ) if live else {}
    place = workspace or entered(given)
    interpreter = _interpreter(python, given, root, place)
    host: Future[HostReport] = Future()

    def examine() -> None:
        from xpubuild.machine.host_report import host_report  # noqa: PLC0415 - beside what else is imported

        try:
            # A compiler's words are parsed, hence the locale.
            words = {**given, "LC_ALL": "C.UTF-8"}
            host.set_result(host_report(root, workspace=place, python=interpreter, environment=words))
        except Exception as error:  # noqa: BLE001 - it is raised again where the report is wanted
            host.set_exception(error)

    # A daemon, so that a hanging mount cannot block the exit.
    threading.Thread(target=examine, daemon=True).start()
    loaded = None
    if recipe is not None:
        from xpubuild.recipe.choices import target_of  # noqa: PLC0415
        from xpubuild.recipe.load import load  # noqa: PLC0415 - pydantic takes its time

        loaded = load(recipe)
        chosen = loaded.recipe.model_copy(update={"target": target_of(loaded.recipe, target)})
        loaded = loaded.model_copy(update={"recipe": chosen})
    elif target is not None:
        raise UsageError("--target needs --recipe", fix="add --recipe RECIPE, or omit --target")

    def wait() -> Look:
        try:
            report = host.result(_HOST_DEADLINE_S)
        except FutureTimeoutError as error:  # the builtin one from Python 3.11 on
            raise ToolchainError(
                f"reading the properties of this machine took longer than {_HOST_DEADLINE_S:g} s",
                why="a file system or a program on PATH does not respond",
                fix="try from another folder, and check the mounts and the folders on PATH",
                commands=("cd / && xpubuild doctor", "df"),
            ) from error
        return Look(report, given, root, loaded, interpreter, place, frozenset(profiles))

    return wait


def entered(environ: Mapping[str, str]) -> Path | None:
    """Return the workspace that this shell has entered, or None."""
    folder = environ.get(_ENTERED)
    return Path(folder) if folder and exists(Path(folder)) else None


def _interpreter(
    named: str | None, environ: Mapping[str, str], root: Path, workspace: Path | None
) -> Path | None:
    """Return the selected interpreter: from the option, of the workspace, or active."""
    if root != LIVE_ROOT:
        return inside(root / named.lstrip("/"), root) if named else None
    if named is not None:
        path = Path(named).expanduser()
        return Path(resolve_executable(str(path.absolute()) if os.sep in named else named, environ))
    active = [environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    folders = [workspace / "env" if workspace else None, *(Path(folder) for folder in active if folder)]
    candidates = (folder / "bin" / "python" for folder in folders if folder is not None)
    return next((path for path in candidates if exists(path)), None)
