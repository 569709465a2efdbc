"""What is made of a build for others, beside the workspace: wheel folder, libtorch archive, modulefile.

``--wheel-dir`` has the wheels that were built, those of the packages that they need, a page of links, and a
requirement file with the hash of every one. A prebuilt wheel counts only if it has the hash of what was
installed: an index may have another build of the same version by now. One that cannot be had is in the
requirement file only, with its hash: pip then takes it from an index, or fails, but takes no other build.

``--libtorch`` has headers, libraries and CMake files of the torch that was built, for C++ programs. Upstream
has no libtorch for XPU. The archive is proved before it has its name: a program is configured with
``find_package(Torch)``, built and run against what was unpacked from it.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
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
from xpubuild.errors import AuditError, UsageError
from xpubuild.frozen import frozen
from xpubuild.install.build_steps import SOURCE_DATE_EPOCH
from xpubuild.install.receipt import Libtorch, sha256_of
from xpubuild.install.target import Prepared, Target
from xpubuild.supply.depot.entries import FILES
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.index.pipconf import links_page
from xpubuild.supply.requirements import hashed_pins
from xpubuild.workspace.modulefile import Modules
from xpubuild.workspace.shared import share_workspace

REQUIREMENTS = "requirements.txt"
PAGE = "index.html"
_ENDINGS = (".tar", ".tar.gz", ".tgz")
_CONFIG = Path("share", "cmake", "Torch", "TorchConfig.cmake")
#: Needs Python, or is upstream's tests.
_LEFT_OUT = re.compile(
    r"lib/(?!lib[^/]+\.(?:so|a)\b)|lib/lib(?:torch_python|jitbackend_test|backend_with_compiler|torchbind_test"
    r"|aoti_custom_ops)\.|bin/(?!torch_shm_manager$)"
)
_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(proof CXX)
find_package(Torch REQUIRED)
set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} ${TORCH_CXX_FLAGS}")
add_executable(proof proof.cpp)
target_link_libraries(proof ${TORCH_LIBRARIES})
"""
_PROGRAM = """\
#include <iostream>
#include <torch/torch.h>
int main() {
  torch::nn::Linear layer(3, 1);
  torch::nn::init::constant_(layer->weight, 2);
  torch::nn::init::constant_(layer->bias, 1);
  layer->forward(torch::ones({4, 3})).sum().backward();
  std::cout << "proof " << layer->forward(torch::ones({1, 3})).item<float>() << " "
            << layer->weight.grad().sum().item<float>() << " " << at::hasXPU() << std::endl;
}
"""
_SAYS = re.compile(r"proof 7 12 ([01])")


@frozen
class Results:
    """The options of these names: what is made of a build, and the key that signs its documents."""

    wheel_dir: Path | None = None
    sign_key: Path | None = None
    libtorch: Path | None = None
    modules: Modules | None = None

    def require_possible(self, prepared: Prepared) -> None:
        """Refuse what cannot be made, before anything is built.

        Raises:
            UsageError: the modulefile is somebody else's; the name of the archive has another ending, or
                torch is not installed from a wheel.
        """
        if self.modules is not None:
            self.modules.require_place(prepared.target.layout.root, vars(prepared.plan))
        if self.libtorch is not None and not self.libtorch.name.endswith(_ENDINGS):
            fix = f"use a name that ends in {', '.join(_ENDINGS)}"
            raise UsageError(f"--libtorch cannot write {self.libtorch.name}", fix=fix)
        if self.libtorch is not None and prepared.target.options.editable:
            why = "--libtorch needs a torch that is installed from its wheel"
            raise UsageError(why, fix="omit --editable")

    def publish(self, prepared: Prepared, receipt: dict[str, Any], cancel: Cancel) -> dict[str, Any]:
        """Put what was built where others use it; return what the receipt that is printed says of it.

        Raises:
            XpuBuildError: what was built stays built.
        """
        layout, found, places = prepared.target.layout, dict[str, Any](), list(receipt["published"])
        if self.wheel_dir is not None:
            places.append(str(self.wheel_dir))
            found["wheel_dir"] = _fill_wheel_folder(prepared, receipt, self.wheel_dir, cancel)
        if self.libtorch is not None:
            found["libtorch"] = _write_libtorch(prepared.target, self.libtorch, cancel)
        if self.modules is not None and receipt["status"] == "complete":
            found["modulefile"] = str(self.modules.write(layout.root, receipt))
            places.append(found["modulefile"])
        elif any(Path(path).is_file() for path in places):
            with files.explained(layout.root, "sharing the workspace that a modulefile leads to"):
                share_workspace(layout.root)  # what was installed since then is as closed as the umask has it
        if places:
            receipt["published"] = [path for path in dict.fromkeys(places) if Path(path).exists()]
            files.write_json(layout.receipt, receipt)
        return found


# --- the wheel folder -----------------------------------------------------------------------------------


def _fill_wheel_folder(
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
    present = {dist.name: dist for dist in installed_dists(target.site_packages)}

    def asked(name: str) -> list[str]:
        return [canonicalize_name(item.name) for item in declared(present[name])] if name in present else []

    wanted = closure([canonicalize_name(item.dist) for item in components], asked)
    lacking: dict[str, tuple[str, ...]] = {}
    for dist in (present[name] for name in sorted(wanted & present.keys())):
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
        what = f"pip cannot install what was built from {folder}"
        why = "; ".join(line for line in result.tail if line.strip())[-600:]
        fix = "run the command below to see all that pip says; the workspace is as proved"
        raise AuditError(what, why=why, fix=fix, commands=(f"{command} --dry-run --ignore-installed",))


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


# --- the libtorch archive -------------------------------------------------------------------------------


def _write_libtorch(target: Target, archive: Path, cancel: Cancel) -> Libtorch:
    """Write the archive of the torch in a workspace, with the top folder ``libtorch``, and prove it.

    Raises:
        UsageError: no torch is installed yet.
        AuditError: the program cannot be configured, built or run, or what it computes is wrong.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    base = base_environment()
    environment = dict(target.oneapi.over(base) if target.oneapi is not None else base)
    environment["PATH"] = f"{target.layout.env / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}"
    standard = target.recipe.needs.cxx_standard or 17
    options = [f"-DCMAKE_CXX_COMPILER={target.compilers.cxx}", f"-DCMAKE_CXX_STANDARD={standard}"]
    return make(target.site_packages / "torch", archive, options, environment, cancel)


def make(
    torch: Path, archive: Path, options: list[str], environment: Mapping[str, str], cancel: Cancel
) -> Libtorch:
    """Write and prove the archive of the package ``torch``; ``options`` are of CMake, for the program."""
    if not (torch / _CONFIG).is_file():
        raise UsageError(f"{torch} has no {_CONFIG}", fix="build and install torch, without --until")
    with files.explained(archive, "making the archive"):
        archive.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder("libtorch", archive.parent) as scratch:
            made = scratch / archive.name
            _pack(torch, made, cancel)
            with tarfile.open(made) as packed:
                # Early releases of Python 3.10 have no filters; the archive is our own.
                safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                packed.extractall(scratch, **safe)  # noqa: S202
            xpu = _prove(scratch, options, environment, cancel)
            sha256, size = file_sha256(made), made.stat().st_size
            files.publish_file(made, archive.parent)
    return {"archive": str(archive), "sha256": sha256, "bytes": size, "xpu": xpu}


def _members(torch: Path) -> Iterator[tuple[str, Path]]:
    for folder in ("bin", "include", "lib", "share"):
        for path in sorted((torch / folder).rglob("*")):
            name = path.relative_to(torch).as_posix()
            if (path.is_file() or path.is_symlink()) and not _LEFT_OUT.match(name):
                yield name, path
    # Of third parties there may be more, in folders below.
    licences = torch.parent.glob("torch-*.dist-info/**/LICENSE")
    for licence in sorted(licences, key=lambda path: (len(path.parts), path))[:1]:
        yield "LICENSE", licence


def _pack(torch: Path, made: Path, cancel: Cancel) -> None:
    """Write the same bytes for the same content, whoever installed it and when."""

    def anonymous(item: tarfile.TarInfo) -> tarfile.TarInfo:
        item.uid = item.gid = 0
        item.uname = item.gname = ""
        item.mtime = int(SOURCE_DATE_EPOCH)
        return item

    with made.open("wb") as stream:
        packed = gzip.GzipFile("", "wb", 1, stream, 0) if made.suffix != ".tar" else stream
        with packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as into:
            for name, path in _members(torch):
                cancel.stop_here()
                into.add(path, f"libtorch/{name}", recursive=False, filter=anonymous)


def _prove(scratch: Path, options: list[str], environment: Mapping[str, str], cancel: Cancel) -> bool:
    """Configure, build and run the program against the unpacked archive; return whether it has XPU."""
    source, build = scratch / "source", scratch / "build"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(_CMAKE, "utf-8")
    (source / "proof.cpp").write_text(_PROGRAM, "utf-8")
    options = [*options, f"-DCMAKE_PREFIX_PATH={scratch / 'libtorch'}"]
    steps = (
        ("configured", ["cmake", "-S", str(source), "-B", str(build), *options]),
        ("built", ["cmake", "--build", str(build)]),
        ("run", [str(build / "proof")]),
    )
    for word, argv in steps:
        result = run(argv, env=environment, cwd=scratch, cancel=cancel)
        cancel.stop_here()
        printed = [line for line in result.tail if line.strip()]
        if not result.ok:
            what = f"a C++ program that uses the libtorch of this build cannot be {word}"
            why = "; ".join(printed)[-800:]
            raise AuditError(what, why=why, fix="the archive was not written; the workspace is as proved")
    found = _SAYS.search("\n".join(printed))
    if found is None:
        why = "; ".join(printed)[-800:]
        raise AuditError("a C++ program that uses the libtorch of this build computes wrong results", why=why)
    return found[1] == "1"
