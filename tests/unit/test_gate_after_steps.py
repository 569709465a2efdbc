"""What is checked after a step: what each check says of itself, its evidence, and its errors (as a whole)."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.artifacts import pack, tiny_elf, unzip

from xpubuild.artifacts.configure import ConfiguredProof
from xpubuild.artifacts.step_proofs import (
    AbiOfInstalledProof,
    EnvironmentProof,
    LinksProof,
    SameWheelProof,
    VerifyProof,
    XpuInstalledProof,
    XpuWheelProof,
)
from xpubuild.errors import XpuBuildError

NEW = ("_ZN2at4nameNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", True)
OLD = ("_ZN2at4nameESs", True)
KERNEL = ("_ZN2at6native3xpu10abs_kernelEv", True)


def environment(folder: Path, settings: str | None, *, program: bool = True) -> EnvironmentProof:
    (folder / "env/bin").mkdir(parents=True)
    if settings is not None:
        (folder / "env/pyvenv.cfg").write_bytes(settings.encode("latin-1"))
    if program:
        (folder / "env/bin/python").touch()
    return EnvironmentProof(str(folder / "env"), "3.12")


@pytest.mark.parametrize("name", ["version", "version_info"])
def test_an_environment_states_its_version(tmp_path: Path, name: str) -> None:
    proof = environment(tmp_path, f"home = /usr/bin\n{name} = 3.12.4\n")
    assert proof.check() == {"python": "3.12.4"}


@pytest.mark.parametrize(
    ("settings", "program", "why"),
    [
        ("version = 3.12.4\n", False, "its interpreter is missing"),
        ("version = 3.11.2\n", True, "its interpreter is 3.11.2"),
        (None, True, "its pyvenv.cfg cannot be read"),
        ("version = 3.12.4 \xff\n", True, "its pyvenv.cfg cannot be read"),
    ],
)
def test_an_environment_of_another_python(
    tmp_path: Path, settings: str | None, program: bool, why: str
) -> None:
    with pytest.raises(XpuBuildError) as caught:
        environment(tmp_path, settings, program=program).check()
    assert caught.value.why == why
    assert caught.value.commands == (f"rm -r '{tmp_path / 'env'}'",)


def test_the_installed_wheel_is_the_one_that_was_built(tmp_path: Path) -> None:
    proof = SameWheelProof(str(tmp_path / "wheels"), "My.Dist", str(tmp_path / "site"))
    (tmp_path / "wheels").mkdir()
    with pytest.raises(XpuBuildError, match=r"should have one wheel of My\.Dist"):
        proof.check()
    wheel = pack(tmp_path / "wheels", "my_dist", "1.0", {"my_dist.py": b"a = 1\n"})
    pack(tmp_path / "wheels", "other", "1.0", {})
    for name, data in unzip(wheel).items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_bytes(data)
    assert proof.check() == {"wheel": wheel.name}
    (tmp_path / "site/my_dist.py").write_bytes(b"a = 2\n")
    with pytest.raises(XpuBuildError, match=r"is not the wheel my_dist-1\.0") as caught:
        proof.check()
    assert caught.value.why == "my_dist.py does not match its hash in RECORD"
    pack(tmp_path / "wheels", "my_dist", "2.0", {})
    with pytest.raises(XpuBuildError, match=r"should have one wheel of My\.Dist"):
        proof.check()


def test_the_abi_is_that_of_the_symbols(tmp_path: Path) -> None:
    for abi in (0, 1):
        with pytest.raises(XpuBuildError, match=f"has C..11 ABI None, the recipe requires {abi}"):
            AbiOfInstalledProof("torch", str(tmp_path), abi).check()
    symbols = [("libc10.so", (OLD, NEW)), ("libc10_xpu.so", (NEW,)), ("libtorch.so", (OLD, OLD))]
    for name, each in symbols:
        (tmp_path / name).write_bytes(tiny_elf(soname=name, symbols=each))
    found = AbiOfInstalledProof("torch", str(tmp_path), 1).check()
    assert found == {"cxx11_abi": 1, "symbols": {"new": 2, "old": 1}}
    with pytest.raises(XpuBuildError) as caught:
        AbiOfInstalledProof("torch", str(tmp_path), 0).check()
    assert caught.value.why == f"{tmp_path}: 2 symbols of the new ABI, 1 of the old one"
    # As many of one as of the other: of the old one.
    (tmp_path / "libc10_xpu.so").unlink()
    assert AbiOfInstalledProof("torch", str(tmp_path), 0).check()["cxx11_abi"] == 0


def test_a_report_of_verify(tmp_path: Path) -> None:
    report = tmp_path / "verify.json"
    proof = VerifyProof(str(report))
    for text in (None, "{"):
        if text is not None:
            report.write_text(text)
        with pytest.raises(XpuBuildError, match="verify wrote no report"):
            proof.check()
    statuses = {"a": "fail", "b": "error", "c": "pass", "d": "skip"}
    checks = [{"id": name, "status": status} for name, status in statuses.items()]
    report.write_text(json.dumps({"status": "fail", "checks": checks}))
    with pytest.raises(XpuBuildError, match="verify found 2 failures") as caught:
        proof.check()
    assert caught.value.why == "a, b"
    report.write_text(json.dumps({"status": "pass", "checks": checks[2:]}))
    assert proof.check() == {"status": "pass", "counts": {"pass": 1, "skip": 1}}


def test_links_lead_to_the_chosen_compilers(tmp_path: Path) -> None:
    link, program, other = tmp_path / "bin of it" / "cc", tmp_path / "gcc", tmp_path / "other"
    link.parent.mkdir()
    for path in (program, other):
        path.touch()
    proof = LinksProof({str(link): str(program)})
    for target in (None, other, tmp_path / "gone"):
        link.unlink(missing_ok=True)
        if target is not None:
            link.symlink_to(target)
        with pytest.raises(XpuBuildError, match="does not lead to"):
            proof.check()
    link.unlink()
    link.symlink_to(program)
    assert proof.check() == {"links": {str(link): str(program)}}


def test_a_configuration_without_build_files(tmp_path: Path) -> None:
    with pytest.raises(XpuBuildError, match="but wrote no build files"):
        ConfiguredProof(str(tmp_path), (str(tmp_path / "a"), str(tmp_path / "b"))).check()


@pytest.mark.parametrize(
    ("libraries", "what"),
    [({"libtorch_cpu": [KERNEL]}, "has no libtorch_xpu.so"),
     ({"libtorch_xpu": [], "libtorch-xpu-ops": [NEW]}, "has no XPU kernels")],
    ids=["no library", "no kernels"],
)  # fmt: skip
def test_a_wheel_without_kernels(
    tmp_path: Path, libraries: Mapping[str, Sequence[tuple[str, bool]]], what: str
) -> None:
    files = {f"torch/lib/{name}.so": tiny_elf(symbols=each) for name, each in libraries.items()}
    pack(tmp_path, "torch", "2.8.0", files)
    with pytest.raises(XpuBuildError, match=what) as caught:
        XpuWheelProof(str(tmp_path)).check()
    assert caught.value.exit_code == 53


def test_kernels_are_counted_by_library(tmp_path: Path) -> None:
    more = ("_ZN2at6native3xpu12add_kernel_xEv", True)
    named = {"libtorch_xpu": [KERNEL, more, NEW], "libtorch-xpu-ops-sycl": [KERNEL], "libxpu": [KERNEL]}
    files = {f"torch/lib/{name}.so": tiny_elf(symbols=each) for name, each in named.items()}
    pack(tmp_path, "torch", "2.8.0", files)
    kernels = {"torch/lib/libtorch_xpu.so": 2, "torch/lib/libtorch-xpu-ops-sycl.so": 1}
    assert XpuWheelProof(str(tmp_path)).check() == {"xpu_kernels": kernels}


TORCH = """\
class xpu:
    @staticmethod
    def _is_compiled():
        return {compiled}
class _C:
    @staticmethod
    def _xpu_getArchFlags():
        return {arch!r}
class version:
    xpu = "20250101"
__version__ = {version!r}
"""


@pytest.fixture
def torch(tmp_path: Path) -> Callable[..., XpuInstalledProof]:
    """Return what makes an interpreter with a torch of its own; ``instead`` is the module's whole text."""

    def make(*, instead: str | None = None, **said: Any) -> XpuInstalledProof:
        text = TORCH.format(**{"compiled": True, "arch": "pvc,bmg", "version": "2.8.0", **said})
        (tmp_path / "torch.py").write_text(text if instead is None else instead)
        (tmp_path / "tools").mkdir(exist_ok=True)
        program = tmp_path / "python"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
        program.chmod(0o755)
        env = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        prefix = (str(tmp_path / "tools"), "/one more")
        return XpuInstalledProof(str(program), ("pvc", "none"), "2.8.0", env, prefix)

    return make


def test_torch_is_asked_in_the_environment_of_oneapi(
    torch: Callable[..., XpuInstalledProof], tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    proof = torch()
    module = tmp_path / "torch.py"
    module.write_text(
        f"import os, sys\nopen({str(seen)!r}, 'w').write(os.environ['PATH'])\n{module.read_text()}"
    )
    said = {
        "version": "2.8.0",
        "compiled": True,
        "sycl": "20250101",
        "arch": ["pvc", "bmg"],
        "file": str(module),
    }
    assert proof.check() == {"torch": said}
    assert seen.read_text().startswith(f"{tmp_path / 'tools'}:/one more:/")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"compiled": False}, "is not compiled for XPU"), ({"version": "2.8.0+cpu"}, "2.8.0 was built"),
        ({"version": "2.8.1"}, "2.8.0 was built"),
        ({"arch": "bmg,dg2"}, "it was compiled ahead of time for: bmg dg2"),
        ({"arch": ""}, "it was compiled ahead of time for: no GPU"),
        ({"instead": "import sys; sys.exit('Traceback\\n\\nImportError: libsycl.so.8: cannot open')"},
         "ImportError: libsycl.so.8: cannot open"),
        ({"instead": "import sys; sys.exit(3)"}, "exited with code 3"),
        ({"instead": "import sys; print('\\x1e{}'); sys.exit(4)"}, "exited with code 4"),
        ({"instead": "class _C: pass\nclass version: pass\n__version__ = '2.8.0'\n"}, "is None"),
    ],
    ids=range(9),
)  # fmt: skip
def test_another_torch_than_was_asked_for(
    torch: Callable[..., XpuInstalledProof], said: Mapping[str, Any], told: str
) -> None:
    with pytest.raises(XpuBuildError) as caught:
        torch(**said).check()
    assert told in f"{caught.value.what}: {caught.value.why}"
    assert caught.value.exit_code == 53
