"""Who brings each library that a wheel needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.artifacts import install_by_hand, tiny_elf

from xpubuild.artifacts.elf import ElfObject
from xpubuild.artifacts.repair_decide import Decider, Decision, Platforms
from xpubuild.artifacts.repair_runtime import Runtime
from xpubuild.errors import XpuBuildError


def elf(*needed: str, **more: Any) -> ElfObject:
    values = {"machine": "EM_X86_64", "bits": 64, "little_endian": True, **more}
    return ElfObject(needed=needed, **values)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment with a part of Intel's runtime, as its wheels have it, and a torch."""
    env = tmp_path / "env"
    site = env / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    (env / "pyvenv.cfg").write_text("version = 3.12\n")
    libraries = {
        "intel-sycl-rt": {
            "../../libsycl.so.8": tiny_elf(soname="libsycl.so.8", needed=["libur_loader.so.0"])
        },
        "intel-cmplr-lib-ur": {"../../libur_loader.so.0": tiny_elf(soname="libur_loader.so.0")},
        "torch": {"torch/lib/libc10.so": tiny_elf(soname="libc10.so"), "torch/lib/libtext.so": b"text"},
    }  # fmt: skip
    for name, files in libraries.items():
        install_by_hand(site, name, "2025.3.1", files)
    (site / "left-1.dist-info").mkdir()
    return site


LIBRARIES = ("libc.so.6", "libsycl.so.8", "libc10.so", "libinside.so")


def decided(site: Path | None, needed: tuple[str, ...]) -> Decision:
    objects = {
        "demo/_C.so": elf(*needed, runpath=("/build/lib", "$ORIGIN/lib")), "demo/lib/libinside.so": elf(),
    }  # fmt: skip
    platforms = Platforms(["EM_X86_64"])
    return Decider("demo", objects, Runtime(site), (), platforms).decide()


@pytest.mark.parametrize(
    ("there", "needed", "expected", "rpath"),
    [
        (True, LIBRARIES, {"system": ("libc.so.6",), "torch": ("libc10.so",)},
         ("$ORIGIN/lib", "$ORIGIN/../../..")),
        (True, ("libze_loader.so.1",), {"driver": ("libze_loader.so.1",)}, ("$ORIGIN/lib",)),
        (False, ("libtorch_xpu.so", "libc10.so"), {"torch": ("libc10.so", "libtorch_xpu.so")},
         ("$ORIGIN/lib",)),
    ],
    ids=range(3),
)  # fmt: skip
def test_who_brings_what(
    site: Path, there: bool, needed: tuple[str, ...], expected: dict[str, Any], rpath: tuple[str, ...]
) -> None:
    found = decided(site if there else None, needed)
    assert {who: names for who, names in vars(found.expected).items() if names} == expected
    assert found.edits["demo/_C.so"].rpath == rpath
    pinned = needed is LIBRARIES
    assert [pin.name for pin in found.pins] == (["intel-cmplr-lib-ur", "intel-sycl-rt"] if pinned else [])
    assert found.bundled == ()


@pytest.mark.parametrize(
    ("needed", "what"),
    [
        (("libnowhere.so", "libmissing.so"), "libmissing.so was not found"),
        (("libsycl.so.8",), "no installed distribution has libsycl.so.8"),
    ],
    ids=range(2),
)
def test_what_nobody_brings(needed: tuple[str, ...], what: str) -> None:
    with pytest.raises(XpuBuildError, match=what):
        decided(None, needed)
