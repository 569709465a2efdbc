"""``--libtorch FILE``: headers, libraries and CMake files of the torch that was built, for C++ programs.

Upstream has no libtorch for XPU. The archive is proved before it has its name: a program is configured with
``find_package(Torch)``, built and run against what was unpacked from it.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine import files
from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel, run
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError, UsageError
from xpubuild.install.build_steps import SOURCE_DATE_EPOCH
from xpubuild.install.receipt import Libtorch
from xpubuild.install.target import Prepared

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


def check_archive(prepared: Prepared, archive: Path) -> None:
    """Refuse what cannot be made, before anything is built.

    Raises:
        UsageError: the name has another ending, or torch is not installed from a wheel.
    """
    if not archive.name.endswith(_ENDINGS):
        raise UsageError(
            f"--libtorch cannot write {archive.name}", fix=f"use a name that ends in {', '.join(_ENDINGS)}"
        )
    if prepared.target.options.editable:
        raise UsageError("--libtorch needs a torch that is installed from its wheel", fix="omit --editable")


def write_libtorch(prepared: Prepared, archive: Path, cancel: Cancel) -> Libtorch:
    """Write the archive of the torch in a workspace, with the top folder ``libtorch``, and prove it.

    Raises:
        UsageError: no torch is installed yet.
        AuditError: the program cannot be configured, built or run, or what it computes is wrong.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target = prepared.target
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
            raise AuditError(
                f"a C++ program that uses the libtorch of this build cannot be {word}",
                why="; ".join(printed)[-800:],
                fix="the archive was not written; the workspace is as proved",
            )
    found = _SAYS.search("\n".join(printed))
    if found is None:
        raise AuditError(
            "a C++ program that uses the libtorch of this build computes wrong results",
            why="; ".join(printed)[-800:],
        )
    return found[1] == "1"
