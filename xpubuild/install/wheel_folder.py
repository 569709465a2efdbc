"""``--wheel-dir``: a folder from which what was built and proved can be installed, and nothing else.

The folder has the wheels that were built, those of the packages that they need, a page of links, and a
requirement file with the hash of every one. A wheel that cannot be had is in that file only, with its hash:
pip then takes it from an index, or fails, but takes no other build of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.utils import canonicalize_name, parse_wheel_filename

from xpubuild.artifacts.site_packages import InstalledDist, declared, installed_dists
from xpubuild.engine import files
from xpubuild.engine.environment import base_environment
from xpubuild.engine.execution import damaged_wheel
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel, run
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen
from xpubuild.install.prebuilt_wheels import Supply
from xpubuild.workspace.layout import Layout

REQUIREMENTS = "requirements.txt"
PAGE = "index.html"


@frozen
class WheelFolder:
    """The folder to fill, from the workspace with this layout.

    ``dists`` are the distributions of the components, ``built_here`` those of them that have sources.
    """

    folder: Path
    layout: Layout
    site_packages: Path
    dists: Sequence[str]
    built_here: Collection[str]
    supply: Supply
    cancel: Cancel

    def fill(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        """Fill the folder; return what ``wheel_dir`` of the receipt says of it.

        Raises:
            AuditError: a wheel is not what was proved, or pip cannot install from the folder.
            NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        with files.explained(self.folder, "making the wheel folder"):
            self.folder.mkdir(parents=True, exist_ok=True)
        found = {str(wheel["name"]): self._built(wheel) for wheel in receipt["wheels"]}
        lacking: dict[str, tuple[str, ...]] = {}
        for dist in needed(self.site_packages, self.dists):
            self.cancel.stop_here()
            if dist.name in found:
                continue
            # What was built here, editable, has no wheel; an index may have something else of its name.
            wheel = None if dist.name in self.built_here else self.supply.bring(dist, self.folder)
            if wheel is not None:
                found[dist.name] = wheel
            else:
                lacking[f"{dist.name}=={dist.version}"] = self.supply.hashes(dist)
        self._write(found, lacking)
        command = self.command(whole=not lacking)
        if not lacking and found:
            self._try()
        return {
            "folder": str(self.folder),
            "wheels": sorted(path.name for path in found.values()),
            "not_copied": sorted(lacking),
            "command": command,
        }

    def command(self, *, whole: bool) -> str:
        """Return the command that installs from the folder, in an environment of the same Python."""
        words = ["python", "-m", "pip", "install", *(["--no-index"] if whole else [])]
        words += ["--find-links", str(self.folder), "--require-hashes"]
        return shlex.join([*words, "-r", str(self.folder / REQUIREMENTS)])

    def _built(self, wheel: Mapping[str, Any]) -> Path:
        source = Path(str(wheel["path"]))
        found = file_sha256(source)
        if found != wheel["sha256"]:
            raise damaged_wheel(str(source), found, str(wheel["sha256"]))
        target = self.folder / source.name
        return (
            target if target.exists() and target.samefile(source) else files.copy_durable(source, self.folder)
        )

    def _write(self, found: Mapping[str, Path], lacking: Mapping[str, Sequence[str]]) -> None:
        hashes = {path: file_sha256(path) for path in found.values()}
        pins = {
            f"{name}=={parse_wheel_filename(path.name)[1]}": (hashes[path],) for name, path in found.items()
        }
        lines = [
            " ".join(
                [pin if known else f"# no wheel: {pin}", *(f"--hash=sha256:{sha256}" for sha256 in known)]
            )
            for pin, known in sorted({**pins, **lacking}.items())
        ]
        head = f"# Install in an empty environment:\n#   {self.command(whole=not lacking)}\n"
        files.write_atomic(self.folder / REQUIREMENTS, "\n".join([head, *lines, ""]).encode())
        links = [
            f'<a href="{quote(path.name)}#sha256={hashes[path]}">{escape(path.name)}</a><br>'
            for path in sorted(found.values())
        ]
        text = "\n".join(["<!DOCTYPE html>", "<title>Wheels</title>", *links, ""])
        files.write_atomic(self.folder / PAGE, text.encode())

    def _try(self) -> None:
        """Let pip resolve and hash everything as in an empty environment, from this folder alone."""
        argv = [
            str(self.layout.python), "-I", "-m", "pip", "--isolated", "install", "--dry-run",
            "--ignore-installed", "--disable-pip-version-check", "--no-input", "--quiet", "--no-index",
            "--find-links", str(self.folder), "--require-hashes", "-r", str(self.folder / REQUIREMENTS),
        ]  # fmt: skip
        result = run(argv, env={**base_environment(), "PIP_CONFIG_FILE": "/dev/null"}, cancel=self.cancel)
        self.cancel.stop_here()
        if not result.ok:
            raise AuditError(
                f"pip cannot install what was built from {self.folder}",
                why="; ".join(line for line in result.tail if line.strip())[-600:],
                fix="run the command below to see all that pip says; the workspace is as proved",
                commands=(self.command(whole=True) + " --dry-run --ignore-installed",),
            )


def needed(site_packages: Path, names: Sequence[str]) -> list[InstalledDist]:
    """Return installed distributions and all that they ask for, as far as it is installed."""
    present = {dist.name: dist for dist in installed_dists(site_packages)}
    waiting, found = [canonicalize_name(name) for name in names], dict[str, InstalledDist]()
    while waiting:
        name = waiting.pop()
        if name in present and name not in found:
            found[name] = present[name]
            waiting += [canonicalize_name(item.name) for item in declared(present[name])]
    return [found[name] for name in sorted(found)]
