"""``--wheel-dir``: a folder from which what was built and proved can be installed, and nothing else.

The folder has the wheels that were built, those of the packages that they need, a page of links, and a
requirement file with the hash of every one. A prebuilt wheel counts only if it has the hash of what was
installed: an index may have another build of the same version by now. One that cannot be had is in the
requirement file only, with its hash: pip then takes it from an index, or fails, but takes no other build.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from packaging.utils import canonicalize_name, parse_wheel_filename

from xpubuild.artifacts.site_packages import InstalledDist, declared, installed_dists
from xpubuild.engine import files
from xpubuild.engine.environment import base_environment
from xpubuild.engine.execution import damaged_wheel
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.model import closure
from xpubuild.engine.places import WRITE, make_shared, share
from xpubuild.engine.process import Cancel, run
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError
from xpubuild.install.receipt import sha256_of
from xpubuild.install.target import Prepared, Target
from xpubuild.supply.depot.entries import FILES
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.index.pipconf import links_page
from xpubuild.supply.requirements import hashed_pins

REQUIREMENTS = "requirements.txt"
PAGE = "index.html"


def fill_wheel_folder(
    prepared: Prepared, receipt: Mapping[str, Any], folder: Path, cancel: Cancel
) -> dict[str, Any]:
    """Fill the folder of --wheel-dir; return what ``wheel_dir`` of the receipt says of it.

    Raises:
        AuditError: a wheel is not what was proved, or pip cannot install from the folder.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target = prepared.target
    with files.explained(folder, "making the wheel folder"):
        make_shared(folder, WRITE)
    found = {str(wheel["name"]): _built(wheel, folder) for wheel in receipt["wheels"]}
    components = [target.component(name) for name in target.components]
    sources = {canonicalize_name(item.dist) for item in components if item.kind == "source"}
    # What pip reported: from where each package came, and its hash.
    origins: dict[str, Any] = {
        canonicalize_name(item["metadata"]["name"]): item
        for step in prepared.plan.steps
        for item in target.layout.pip_installed(step.id)
    }
    lacking: dict[str, tuple[str, ...]] = {}
    for dist in needed(target.site_packages, [item.dist for item in components]):
        cancel.stop_here()
        if dist.name in found:
            continue
        origin = origins.get(dist.name, {})
        sha256 = sha256_of(origin)
        # What was built here, editable, has no wheel; an index may have something else of its name.
        known = sha256 is not None and dist.name not in sources
        wheel = _wheel_of(target, dist, folder, origin, cancel) if known else None
        if wheel is not None:
            found[dist.name] = wheel
        else:
            lacking[f"{dist.name}=={dist.version}"] = (sha256,) if sha256 else _hashes(target, dist)
    words = ["python", "-m", "pip", "install", *([] if lacking else ["--no-index"])]
    words += ["--find-links", str(folder), "--require-hashes", "-r", str(folder / REQUIREMENTS)]
    command = shlex.join(words)
    _write(folder, found, lacking, command)
    with files.explained(folder, "sharing what is in it"):
        share((*found.values(), folder / REQUIREMENTS, folder / PAGE))
    if found and not lacking:
        _try(target.layout.python, folder, command, cancel)
    return {
        "folder": str(folder),
        "wheels": sorted(path.name for path in found.values()),
        "not_copied": sorted(lacking),
        "command": command,
    }


def _built(wheel: Mapping[str, Any], folder: Path) -> Path:
    source = Path(str(wheel["path"]))
    found = file_sha256(source)
    if found != wheel["sha256"]:
        raise damaged_wheel(str(source), found, str(wheel["sha256"]))
    for beside in source.parent.glob(f"{source.name}.*"):  # its provenance
        if folder != source.parent:
            share([files.copy_durable(beside, folder)])
    target = folder / source.name
    return target if target.exists() and target.samefile(source) else files.copy_durable(source, folder)


def _write(
    folder: Path, found: Mapping[str, Path], lacking: Mapping[str, Sequence[str]], command: str
) -> None:
    hashes = {path: file_sha256(path) for path in found.values()}
    pins = {f"{name}=={parse_wheel_filename(path.name)[1]}": (hashes[path],) for name, path in found.items()}
    lines = [
        " ".join([pin if known else f"# no wheel: {pin}", *(f"--hash=sha256:{sha256}" for sha256 in known)])
        for pin, known in sorted({**pins, **lacking}.items())
    ]
    head = f"# Install in an empty environment:\n#   {command}\n"
    files.write_atomic(folder / REQUIREMENTS, "\n".join([head, *lines, ""]).encode())
    text = links_page((quote(path.name), path.name, hashes[path]) for path in found.values())
    files.write_atomic(folder / PAGE, text.encode())


def _try(python: Path, folder: Path, command: str, cancel: Cancel) -> None:
    """Let pip resolve and hash everything as in an empty environment, from this folder alone."""
    argv = [
        str(python), "-I", "-m", "pip", "--isolated", "install", "--dry-run", "--ignore-installed",
        "--disable-pip-version-check", "--no-input", "--quiet", "--no-index", "--find-links", str(folder),
        "--require-hashes", "-r", str(folder / REQUIREMENTS),
    ]  # fmt: skip
    result = run(argv, env={**base_environment(), "PIP_CONFIG_FILE": "/dev/null"}, cancel=cancel)
    cancel.stop_here()
    if not result.ok:
        raise AuditError(
            f"pip cannot install what was built from {folder}",
            why="; ".join(line for line in result.tail if line.strip())[-600:],
            fix="run the command below to see all that pip says; the workspace is as proved",
            commands=(f"{command} --dry-run --ignore-installed",),
        )


def needed(site_packages: Path, names: Sequence[str]) -> list[InstalledDist]:
    """Return installed distributions and all that they ask for, as far as it is installed."""
    present = {dist.name: dist for dist in installed_dists(site_packages)}

    def asked(name: str) -> list[str]:
        return [canonicalize_name(item.name) for item in declared(present[name])] if name in present else []

    found = closure(map(canonicalize_name, names), asked)
    return [present[name] for name in sorted(found & present.keys())]


def _wheel_of(
    target: Target, dist: InstalledDist, folder: Path, origin: Mapping[str, Any], cancel: Cancel
) -> Path | None:
    """Put the wheel that was installed into the folder; None where it cannot be had."""
    downloads, url, sha256 = target.downloads, str(origin["download_info"]["url"]), sha256_of(origin) or ""
    for path in folder.glob("*.whl"):
        if canonicalize_name(path.name.partition("-")[0]) == dist.name and file_sha256(path) == sha256:
            return path
    if downloads.mirror is not None:
        depot = Depot(downloads.mirror)
        if (entry := depot.index().entries.get(f"{FILES}/{sha256}")) is not None:
            return files.copy_durable(depot.file(entry), folder)
    # From where it came, else from an index.
    reachable = url and (urlsplit(url).scheme == "file" or not downloads.offline)
    pins = [f"{dist.name} @ {url}"] if reachable else []
    pins += [] if downloads.offline else [f"{dist.name}=={dist.version}"]
    for pin in pins:
        with scratch_folder("wheels", folder) as scratch:
            (scratch / REQUIREMENTS).write_text(f"{pin} --hash=sha256:{sha256}\n", "utf-8")
            argv = [
                str(target.layout.python), "-I", "-m", "pip", "download", "--no-deps", "--only-binary",
                ":all:", "--no-input", "--disable-pip-version-check", "--quiet", "--dest", str(scratch),
                "--require-hashes", "--requirement", str(scratch / REQUIREMENTS),
            ]  # fmt: skip
            run(argv, env=base_environment(), cwd=scratch, cancel=cancel)
            cancel.stop_here()
            for path in scratch.glob("*.whl"):
                return files.publish_file(path, folder)
    return None


def _hashes(target: Target, dist: InstalledDist) -> tuple[str, ...]:
    """Return the hashes that a distribution's wheel may have."""
    pins = (pin for text in target.requirements.values() for pin in hashed_pins(text))
    named = (pin for pin in pins if (canonicalize_name(pin.name), pin.version) == (dist.name, dist.version))
    return tuple(sorted({item for pin in named for item in pin.hashes}))
