"""Runs the program that builds images: podman, buildah, docker or apptainer."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xpubuild.engine.child import resolve_executable
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel, run
from xpubuild.errors import BuildError, ToolchainError, UsageError
from xpubuild.frozen import frozen
from xpubuild.images.model import CACHE
from xpubuild.images.request import Format

#: What builds which format, the first that is installed is taken.
BUILDERS: Mapping[Format, tuple[str, ...]] = {
    "containerfile": ("podman", "buildah", "docker"),
    "apptainer": ("apptainer", "singularity"),
}
#: An OCI image has no SHELL, the format of docker has; buildah keeps layers only if told.
_ITS_OWN = {"podman": ("--format", "docker"), "buildah": ("--format", "docker", "--layers")}
#: Variables that tell a builder where its storage, its registries and its daemon are.
_OWN = (
    "BUILDAH_", "CONTAINERS_", "CONTAINER_", "DOCKER_", "REGISTRY_", "STORAGE_", "APPTAINER_", "SINGULARITY_",
)  # fmt: skip


@frozen
class Job:
    """One build of ``file`` in ``folder``; ``tag`` names the result, of Apptainer a file."""

    builder: str
    form: Format
    file: Path
    folder: Path
    tag: str
    cache: Path
    more: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        """The command."""
        if self.form == "apptainer":
            words = ("--bind", f"{self.cache}:{CACHE}", *self.more, self.tag, str(self.file))
        else:
            own = _ITS_OWN.get(Path(self.builder).name, ())
            words = (*own, "--file", str(self.file), "--tag", self.tag, *self.more, str(self.folder))
        return (self.builder, "build", *words)


def chosen_builder(form: Format, named: str | None = None) -> str:
    """Return the builder that is named, else the first that is installed.

    Raises:
        UsageError: it builds other formats.
        ToolchainError: it is not installed, or none is.
    """
    env = base_environment()
    if named and Path(named).name not in BUILDERS[form]:
        raise UsageError(
            f"{named} does not build the format {form}",
            why=f"those that do: {', '.join(BUILDERS[form])}",
            fix="use one of these with --builder, or another --format",
        )
    for name in (named,) if named else BUILDERS[form]:
        try:
            resolve_executable(name, env)
        except ToolchainError:
            continue
        return name
    what = f"{named} is not installed" if named else f"nothing that builds the format {form} is installed"
    raise ToolchainError(
        what,
        why=f"looked on PATH for {named or ', '.join(BUILDERS[form])}",
        fix="install one of them, or write the file with --output and build it where a builder is",
        commands=("xpubuild image --help",),
    )


def build(job: Job, *, log: Path, on_line: Callable[[str], None], cancel: Cancel) -> None:
    """Build an image.

    Raises:
        BuildError: the builder failed; its last lines are the reason.
        ToolchainError, NoSpaceError, InterruptedByUserError.
    """
    own = {name: value for name, value in os.environ.items() if name.startswith(_OWN)}
    env = {**base_environment(), **own, "DOCKER_BUILDKIT": "1"}
    if job.form == "apptainer":
        job.cache.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        result = run(job.argv, env=env, cwd=job.folder, log=stream, on_line=on_line, cancel=cancel)
    cancel.stop_here()
    if not result.ok:
        raise BuildError(
            f"{job.builder} could not build the image",
            why=_last(result.tail),
            fix="correct what the log says, then run the same command again: what was built is kept",
            commands=(f"xpubuild explain {shlex.quote(str(log))}",),
            log=log,
            evidence={"argv": list(job.argv), "returncode": result.returncode},
        )


def _last(lines: Sequence[str]) -> str:
    return "; ".join(line for line in lines if line.strip())[-600:]
