"""The compilers and the offline compiler of a build for XPU: made-up programs say what real ones say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest
from support.files import script

from xpubuild.errors import ToolchainError
from xpubuild.install.build_compilers import build_compilers
from xpubuild.install.target import Compilers, OneapiFacts
from xpubuild.install.xpu_toolchain import unknown_targets
from xpubuild.machine.compilers import CompilerFacts, HostCompilers
from xpubuild.machine.system import OsFacts

DEBIAN = OsFacts(id="debian", version="12")


def gcc(folder: Path, *, whole: bool = True) -> str:
    """Make a GCC with its folder of libraries, and return that folder."""
    home = folder / "lib" / "gcc" / "x" / "13"
    home.mkdir(parents=True)
    if whole:
        (home / "crtbegin.o").touch()
    for name in ("gcc", "g++"):
        script(folder / name, f"[ \"$1\" = -print-libgcc-file-name ] && echo '{home}/libgcc.a'")
    return str(home)


def facts(folder: Path, kind: str = "gcc") -> HostCompilers:
    cc, cxx = (
        CompilerFacts(kind=kind, version="13.2.0", path=str(folder / name), target="x86_64", name=name)
        for name in ("gcc", "g++")
    )
    return HostCompilers(cc, cxx)


def oneapi(folder: Path, selected: str | None) -> OneapiFacts:
    """Make icx and icpx; ``selected`` is the GCC that icpx says it works with."""
    told = f"echo 'Selected GCC installation: {selected} ' >&2" if selected is not None else "exit 3"
    for name in ("icx", "icpx"):
        script(folder / name, told)
    (folder / "icpx.cfg").write_text("-something")
    return OneapiFacts(path_prefix=(str(folder),))


def found(tmp_path: Path, selected: str | None, *, on_path: bool, whole: bool = True) -> Compilers:
    home = gcc(tmp_path / "gcc", whole=whole)
    given = oneapi(tmp_path / "intel", home if selected == "own" else selected)
    if on_path:
        given = OneapiFacts(path_prefix=(*given.path_prefix, str(tmp_path / "gcc")))
    return build_compilers(facts(tmp_path / "gcc"), given)


def plain(tmp_path: Path) -> Compilers:
    key = dict.fromkeys(("cc", "cxx"), "gcc 13.2.0 x86_64")
    folder = tmp_path / "gcc"
    return Compilers(f"{folder}/gcc", f"{folder}/g++", "13.2.0", key, "gcc")


@pytest.mark.parametrize(
    ("selected", "on_path", "whole", "named", "configured"),
    [
        ("own", True, True, False, False),
        ("own", False, True, True, False),
        ("/usr/lib/gcc/other", True, True, False, True),
        ("/usr/lib/gcc/other", False, True, True, True),
        ("/usr/lib/gcc/other", True, False, False, False),
        # An icpx that does not say what it takes: it may take what PATH does not lead to.
        (None, True, True, False, False),
        (None, False, True, True, True),
    ],
)
def test_compilers_are_named_and_configured_where_others_would_be_taken(
    tmp_path: Path, *, selected: str | None, on_path: bool, whole: bool, named: bool, configured: bool
) -> None:
    compilers, expected = found(tmp_path, selected, on_path=on_path, whole=whole), plain(tmp_path)
    home, intel = tmp_path / "gcc" / "lib" / "gcc" / "x" / "13", tmp_path / "intel"
    names = {"gcc": expected.cc, "g++": expected.cxx} if named else {}
    line = f'--gcc-install-dir="{home}"\n'
    config = {"icx": line, "icpx": f"@{intel}/icpx.cfg\n{line}"} if configured else {}
    key = {**expected.key, **({"icx": str(home)} if configured else {})}
    assert compilers == Compilers(expected.cc, expected.cxx, "13.2.0", key, "gcc", names, config)


def test_without_oneapi_and_for_other_compilers_nothing_is_asked(tmp_path: Path) -> None:
    assert build_compilers(facts(tmp_path / "gcc"), None) == plain(tmp_path)
    clang = build_compilers(facts(tmp_path / "gcc", "clang"), oneapi(tmp_path / "intel", "/x"))
    assert (clang.kind, clang.names, clang.config) == ("clang", {}, {})


LISTS = (("pvc", "bmg"), ("pvc",), ("pvc",))


def ocloc(tmp_path: Path, text: str) -> dict[str, str]:
    script(tmp_path / "bin" / "ocloc", text)
    return {"PATH": f"{tmp_path}/bin{os.pathsep}/usr/bin:/bin"}


def asked(environment: Mapping[str, str], libraries: str = "") -> tuple[str, ...] | None:
    with mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": libraries}):
        return unknown_targets(LISTS, environment, DEBIAN)


def test_an_ocloc_that_is_not_there() -> None:
    with pytest.raises(ToolchainError) as caught:
        asked({"PATH": "/nowhere"})
    assert "kernels ahead of time for pvc, bmg; without it" in caught.value.why
    assert caught.value.fix.endswith(
        "; if a module has it, load the module, or name the folder of ocloc with --extra-path and that of its"
        " libraries with --extra-library-path"
    )
    assert caught.value.commands


def test_an_ocloc_that_does_not_compile(tmp_path: Path) -> None:
    environment = ocloc(
        tmp_path, 'test -n "$LD_LIBRARY_PATH" || { echo no compiler >&2; exit 1; }\necho image > kernel.out'
    )
    for libraries in ("", f"{tmp_path}/a driver:/x"):
        with pytest.raises(ToolchainError):
            asked(environment, libraries)
    (tmp_path / "a driver").mkdir()
    (tmp_path / "a driver" / "libigc.so.2").touch()
    with pytest.raises(ToolchainError) as caught:
        asked(environment, f"{tmp_path}/a driver:/x")
    assert caught.value.commands == (f"export XPUBUILD_EXTRA_LIBRARY_PATH='{tmp_path}/a driver'",)
