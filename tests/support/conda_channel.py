"""A small conda channel made at test time: real archives, real hashes, indexed by rattler.

Real conda packages are not to be had where the tests run. ``python`` of this channel is a stand-in: its
``bin/python`` links to the interpreter that runs the tests, with a ``pyvenv.cfg`` that makes the prefix an
environment of its own.
"""

from __future__ import annotations

import asyncio
import configparser
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_STAMP = 1_700_000_000
VERSION = ".".join(map(str, sys.version_info[:3]))
MINOR = ".".join(map(str, sys.version_info[:2]))
SITE = f"lib/python{MINOR}/site-packages"


@dataclass(frozen=True)
class Tiny:
    """A package to be made; a content of ``Path`` is a symbolic link."""

    name: str
    version: str = "1.0"
    build: str = "0"
    depends: Sequence[str] = ()
    files: Mapping[str, bytes | Path] = field(default_factory=dict)
    format: str = "conda"
    subdir: str = "linux-64"
    license: str = "BSD-3-Clause"
    prefix_files: Sequence[str] = ()

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}-{self.build}.{self.format}"


def python_stand_in() -> Tiny:
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    settings = f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {VERSION}\n"
    return Tiny(
        "python",
        VERSION,
        depends=["libstdcxx-ng"],
        files={
            "bin/python": base,
            f"bin/python{MINOR}": base,
            "bin/python3": base,
            "pyvenv.cfg": settings.encode(),
            f"{SITE}/README.txt": b"stand-in\n",
        },
    )


def script(text: str) -> bytes:
    return f"#!/bin/sh\n# installed in PREFIX_PLACE\necho '{text}'\n".encode()


def usual() -> list[Tiny]:
    """Return the packages that a recipe's toolchain asks for, with their dependencies."""
    return [
        python_stand_in(),
        Tiny("libstdcxx-ng", "15.2.0", files={"share/libstdcxx.txt": b"no library in this stand-in\n"}),
        Tiny("pip", "25.0", depends=["python"], files={"share/pip.txt": b"x\n"}, subdir="noarch"),
        Tiny(
            "cmake",
            "3.31.2",
            depends=["libstdcxx-ng >=13"],
            files={
                "bin/cmake": script("cmake version 3.31.2"),
                "etc/conda/activate.d/cmake.sh": b"export X=1\n",
            },
            prefix_files=["bin/cmake"],
        ),
        Tiny("ninja", "1.13.0", files={"bin/ninja": script("1.13.0")}, format="tar.bz2"),
    ]


def from_wheel(wheel: Path, *, name: str | None = None) -> Tiny:
    """Return the content of a real wheel as a conda package, as conda's builders make one of it."""
    dist, version = wheel.name.split("-")[:2]
    info = f"{dist}-{version}.dist-info"
    files: dict[str, bytes | Path] = {f"{SITE}/{info}/INSTALLER": b"conda"}
    with zipfile.ZipFile(wheel) as bundle:
        for item in bundle.namelist():
            if not item.endswith("/"):
                files[_place(item, f"{dist}-{version}.data")] = bundle.read(item)
    record, points = files[f"{SITE}/{info}/RECORD"], files.get(f"{SITE}/{info}/entry_points.txt", b"")
    assert isinstance(record, bytes)
    assert isinstance(points, bytes)
    files[f"{SITE}/{info}/RECORD"] = record + f"{info}/INSTALLER,,4\n{info}/REQUESTED,,0\n".encode()
    programs = _programs(points.decode())
    return Tiny(
        name or dist.replace("_", "-"), version, depends=["python"], files={**files, **programs},
        prefix_files=list(programs),
    )  # fmt: skip


def _place(item: str, data: str) -> str:
    outside = {f"{data}/data/": "", f"{data}/scripts/": "bin/"}
    for folder, place in {**outside, f"{data}/purelib/": f"{SITE}/", f"{data}/platlib/": f"{SITE}/"}.items():
        if item.startswith(folder):
            return place + item.removeprefix(folder)
    return f"{SITE}/{item}"


#: A line for the shell and for Python, so that a blank in the prefix does not break it.
_START = """#!/bin/sh
'''exec' "PREFIX_PLACE/bin/python" "$0" "$@"
' '''
"""


def _programs(entry_points: str) -> dict[str, bytes]:
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.read_string(entry_points)
    found = {}
    for name, target in parser["console_scripts"].items() if parser.has_section("console_scripts") else ():
        module, _, function = target.partition(":")
        code = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        found[f"bin/{name}"] = (_START + code).encode()
    return found


def make_channel(folder: Path, packages: Sequence[Tiny]) -> Path:
    """Write the packages and index them with rattler; return the folder."""
    from rattler.index import index_fs

    for name in ("linux-64", "noarch"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for package in packages:
        (folder / package.subdir / package.filename).write_bytes(archive(package))
    asyncio.run(index_fs(folder, write_zst=False, write_shards=False, force=True))
    return folder


def archive(package: Tiny) -> bytes:
    """Return the bytes of a package; the same for the same content."""
    info = {name: json.dumps(value).encode() for name, value in _info(package).items()}
    info["info/files"] = "".join(f"{name}\n" for name in package.files).encode()
    if package.format == "tar.bz2":
        return _tar({**info, **package.files}, "w:bz2")
    import zstandard

    stem = package.filename.removesuffix(".conda")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as bundle:
        for name, content in (
            ("metadata.json", b'{"conda_pkg_format_version": 2}'),
            (f"pkg-{stem}.tar.zst", zstandard.compress(_tar(package.files, "w"), 1)),
            (f"info-{stem}.tar.zst", zstandard.compress(_tar(info, "w"))),
        ):
            bundle.writestr(zipfile.ZipInfo(name), content)
    return data.getvalue()


def _info(package: Tiny) -> dict[str, Any]:
    index = {
        "name": package.name, "version": package.version, "build": package.build, "build_number": 0,
        "depends": list(package.depends), "license": package.license, "subdir": package.subdir,
        "timestamp": _STAMP * 1000,
        **({"noarch": "generic"} if package.subdir == "noarch" else {"platform": "linux", "arch": "x86_64"}),
    }  # fmt: skip
    return {
        "info/index.json": index,
        "info/paths.json": {
            "paths_version": 1,
            "paths": [_path(package, name, content) for name, content in package.files.items()],
        },
        "info/about.json": {},
    }


def _path(package: Tiny, name: str, content: bytes | Path) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "_path": name,
        "path_type": "softlink" if isinstance(content, Path) else "hardlink",
    }
    data = b"" if isinstance(content, Path) else content
    entry |= {"sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data)}
    if name in package.prefix_files:
        entry |= {"file_mode": "text", "prefix_placeholder": "PREFIX_PLACE"}
    return entry


def _tar(files: Mapping[str, bytes | Path], mode: Any) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as bundle:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.mtime, member.mode = _STAMP, 0o755 if "/bin/" in f"/{name}" else 0o644
            if isinstance(content, Path):
                member.type, member.linkname = tarfile.SYMTYPE, str(content)
                bundle.addfile(member)
            else:
                member.size = len(content)
                bundle.addfile(member, io.BytesIO(content))
    return data.getvalue()
