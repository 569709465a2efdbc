"""Small shared libraries with a chosen SONAME, chosen needs and chosen symbol versions, linked by gcc."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Each is filled up to this size: what the linker at hand makes is smaller.
_BYTES = 1 << 16


def library(
    path: Path,
    *,
    soname: str = "",
    needed: Sequence[str] = (),
    defines: Sequence[str] = (),
    wants: Mapping[str, Sequence[str]] | None = None,
    rpath: str = "",
    mark: str = "",
) -> Path:
    """Put a library at ``path``; return it.

    ``needed`` are the NEEDED entries, ``defines`` the symbol versions that it offers, in order, ``wants`` the
    versions that it needs of a library, such as {"libstdc++.so.6": ["GLIBCXX_3.4.30"]}. ``mark`` is text
    inside: two libraries that differ in it alone have different contents.
    """
    pairs = tuple((name, tuple(versions)) for name, versions in (wants or {}).items())
    made = _made(_Wish(soname or path.name, tuple(needed), tuple(defines), pairs, rpath, mark))
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made, path)
    os.truncate(path, _BYTES)
    return path


@dataclass(frozen=True)
class _Wish:
    soname: str
    needed: tuple[str, ...]
    defines: tuple[str, ...]
    wants: tuple[tuple[str, tuple[str, ...]], ...]
    rpath: str
    mark: str


@functools.cache
def _folder() -> Path:
    # The session's folder, which is removed at its end; tempfile may have remembered another.
    return Path(tempfile.mkdtemp(prefix="small-elf-", dir=os.environ.get("TMPDIR")))


@functools.cache
def _made(wish: _Wish) -> Path:
    key = hashlib.sha256(repr(wish).encode()).hexdigest()[:16]
    folder = _folder() / key
    folder.mkdir()
    linked = [_stub(folder, name) for name in wish.needed] + [
        _versioned(folder, *pair) for pair in wish.wants
    ]
    calls = "".join(f"void {_symbol(version)}(void);" for _, versions in wish.wants for version in versions)
    uses = "".join(f"{_symbol(version)}();" for _, versions in wish.wants for version in versions)
    offers = "".join(f"void {_symbol(version)}(void) {{}}" for version in wish.defines)
    source = f'const char *mark = "{wish.mark}"; {calls} void use(void) {{ {uses} }} {offers}'
    output = folder / "made.so"
    _link(output, wish.soname, source, wish.defines, linked)
    return output


def _stub(folder: Path, name: str) -> str:
    return str(_link(folder / f"stub-{name}", name, "", (), []))


def _versioned(folder: Path, name: str, versions: tuple[str, ...]) -> str:
    source = "".join(f"void {_symbol(version)}(void) {{}}" for version in versions)
    return str(_link(folder / f"versioned-{name}", name, source, versions, []))


def _link(output: Path, soname: str, source: str, versions: Sequence[str], more: list[str]) -> Path:
    script = []
    if versions:
        text, before = "", ""
        for version in versions:
            text += f"{version} {{ global: {_symbol(version)}; }} {before};\n"
            before = version
        place = output.with_suffix(".map")
        place.write_text(text, "utf-8")
        script = [f"-Wl,--version-script={place}"]
    argv = [
        "gcc", "-shared", "-nostdlib", "-fPIC", "-Wl,--no-as-needed", "-Wl,-z,noexecstack",
        f"-Wl,-soname,{soname}", "-x", "c", "-", "-x", "none", "-o", str(output), *script, *more,
    ]  # fmt: skip
    subprocess.run(argv, input=source + "\n", text=True, check=True, capture_output=True, timeout=60)
    return output


def _symbol(version: str) -> str:
    return "f_" + version.replace(".", "_")
