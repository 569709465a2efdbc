"""Environments that are broken as whole: extensions, neighbours of torch and images, each named rightly."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from integration.torch_env import TORCH, TorchEnv, _must, _pip, shared_root
from integration.verify_mutations import load
from integration.verify_support import Target, bad, by_id
from support.shared import once

from xpubuild.verify.catalogue import list_checks

# Where only CUDA builds of torchvision and torchaudio can be had, their extensions cannot load beside the CPU
# torch of the tests: ``cuda_vision`` is just that. For the checks of their operators there is a torchvision
# with the same two functions in Python, and a torchaudio without its extension, whose filters and spectra are
# torch operators anyway.
VISION = "0.28.0"
AUDIO = "2.11.0"

_VISION = """\
import torch
from . import ops, version
__version__ = "0.28.0+stub"
"""

_OPS = """\
import torch
_library = torch.library.Library("torchvision", "DEF")
_library.define("nms(Tensor boxes, Tensor scores, float most) -> Tensor")

def nms(boxes, scores, most):
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    kept, order = [], scores.argsort(descending=True)
    while len(order):
        first, order = order[0], order[1:]
        kept.append(first)
        low = torch.maximum(boxes[first, :2], boxes[order, :2])
        high = torch.minimum(boxes[first, 2:], boxes[order, 2:])
        shared = (high - low).clamp(min=0).prod(dim=1)
        order = order[shared / (areas[first] + areas[order] - shared) <= most]
    return torch.stack(kept)

_library.impl("nms", nms, "CPU")

def roi_align(planes, rois, output_size, sampling_ratio, aligned):
    shift, steps = (0.5 if aligned else 0.0), output_size * sampling_ratio
    height, width = planes.shape[-2:]
    results = []
    for index, x0, y0, x1, y1 in rois.tolist():
        at = (torch.arange(steps) + 0.5) / steps
        y, x = y0 - shift + at * (y1 - y0), x0 - shift + at * (x1 - x0)
        grid = torch.stack(torch.meshgrid(y / (height - 1), x / (width - 1), indexing="ij")[::-1], dim=-1)
        plane = planes[int(index)].unsqueeze(0)
        samples = torch.nn.functional.grid_sample(plane, grid.unsqueeze(0) * 2 - 1, align_corners=True)
        results.append(torch.nn.functional.avg_pool2d(samples, sampling_ratio)[0])
    return torch.stack(results)
"""


def python_vision(folder: Path) -> Path:
    """Write a torchvision whose operators are Python; return the folder for PYTHONPATH."""
    package = folder / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_VISION, "utf-8")
    (package / "ops.py").write_text(_OPS, "utf-8")
    (package / "version.py").write_text("cuda = None\n", "utf-8")
    return folder


def _install(env: TorchEnv, folder: Path, requirement: str) -> None:
    _must(*_pip(env.root), "install", "-q", "--no-deps", "--target", folder, requirement, env=env.environ)


@pytest.fixture(scope="session")
def cuda_vision(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the torchvision of the index, which is built for CUDA."""

    def make(folder: Path) -> None:
        _install(torch_env, folder, f"torchvision=={VISION}")

    return once(shared_root(tmp_path_factory), f"vision-{VISION}", make)


@pytest.fixture(scope="session")
def audio(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with torchaudio, without its extension."""

    def make(folder: Path) -> None:
        _install(torch_env, folder, f"torchaudio=={AUDIO}")
        shutil.rmtree(folder / "torchaudio" / "lib")

    return once(shared_root(tmp_path_factory), f"audio-{AUDIO}", make)


_WRONG_NMS = (
    "import sys\n"
    "real = torchvision.ops.nms\n"
    "torchvision.ops.nms = lambda boxes, scores, most: real(boxes, scores, most + 0.1)"
)
_WRONG_ALIGN = (
    "real = torchvision.ops.roi_align\n"
    "torchvision.ops.roi_align = lambda *a, aligned, **k: real(*a, aligned=False, **k)"
)
_FORGETFUL = (
    "import torchaudio.functional as f\nreal = f.lfilter\n"
    "f.lfilter = lambda x, a, b, **k: real(x, a * a.new_tensor([1, 1, 1.001]), b, **k)"
)
_LOUDER = (
    "import torchaudio.transforms as t\nreal = t.MelSpectrogram.forward\n"
    "t.MelSpectrogram.forward = lambda self, x: real(self, x) * 1.001"
)


def test_every_check_of_the_workflows_can_be_made_to_fail() -> None:
    """By a mutation, by an environment of this module, or by a launcher (test_verify_suite.py)."""
    groups = {"compile", "model", "workloads", "profiler", "distributed", "speed", "image"}
    checks = {check.id for check in list_checks() if check.group in groups}
    assert checks - {mutation["check"] for mutation in load()} == {"image.linkage", "distributed.nodes"}


def library(path: Path, source: str, *words: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".cpp")
    code.write_text(source, "utf-8")
    subprocess.run(["g++", "-shared", "-fPIC", str(code), "-o", str(path), *words], check=True)
    code.unlink()


def test_extension_of_the_other_cxx_abi(target: Target, warm: Path) -> None:
    """It wants a function of libc10 with the string type of the old ABI, which this torch has not."""
    package = target.work / "old abi" / "xpubuild_ops"
    symbol = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
    source = f'extern "C" void {symbol}(); extern "C" void PyInit__C() {{ {symbol}(); }}\n'
    library(package / "_C.so", source, "-Wl,-z,now")
    (package / "__init__.py").write_text("from . import _C\n", "utf-8")
    report = target.verify("ops", ops=False, path=[package.parent], python=warm)
    assert bad(report) == {"ops.import": "fail"}
    detail = by_id(report)["ops.import"].detail
    assert "undefined symbol" in detail
    assert symbol in detail
    assert by_id(report)["ops.swiglu_forward"].status == "skip"


def test_torchvision_built_for_cuda_beside_a_cpu_torch(target: Target, warm: Path, cuda_vision: Path) -> None:
    report = target.verify("vision", path=[cuda_vision], python=warm)
    assert bad(report) == {"vision.import": "fail"}
    detail = by_id(report)["vision.import"].detail
    assert "torchvision cannot be imported" in detail
    assert by_id(report)["vision.nms"].detail == "needs vision.import, which failed"


def test_libraries_of_a_neighbour_that_need_what_is_not_there(
    target: Target, warm: Path, cuda_vision: Path
) -> None:
    """Told from the files, where no GPU is and nothing can be tried."""
    site = target.work / "site"
    site.mkdir()
    for package in (target.env.site / "torch", cuda_vision / "torchvision"):
        (site / package.name).symlink_to(package)
    mutation = f"torch.__file__ = {str(site / 'torch' / '__init__.py')!r}"
    report = target.verify("image.linkage", mutation=mutation, python=warm)
    assert bad(report) == {"image.linkage": "fail"}
    detail = by_id(report)["image.linkage"].detail
    assert "libtorch_cuda.so" in detail
    assert "needs" in detail


def test_two_sycl_runtimes(target: Target, warm: Path) -> None:
    """One that a library needs and one that another found by its own path."""
    lib = target.work / "site" / "torch" / "lib"
    for number in ("7", "8"):
        folder = target.work / f"oneapi {number}"
        library(folder / f"libsycl.so.{number}", "", f"-Wl,-soname,libsycl.so.{number}")
        library(
            lib / f"libuser{number}.so", "", "-Wl,--no-as-needed", str(folder / f"libsycl.so.{number}"),
            f"-Wl,-rpath,{folder}",
        )  # fmt: skip
    mutation = f"torch.__file__ = {str(lib.parent / '__init__.py')!r}\ntorch.xpu._is_compiled = lambda: True"
    report = target.verify("image.one_libsycl", mutation=mutation, python=warm)
    assert bad(report) == {"image.one_libsycl": "fail"}
    assert by_id(report)["image.one_libsycl"].detail.startswith("2 SYCL runtimes found: ")


def test_image_suite_says_what_is_not_xpu(target: Target, warm: Path) -> None:
    report = target.verify(suite="image", ops=False, python=warm)
    assert bad(report) == {}
    assert [check.id for check in report.checks if check.status == "skip"] == ["image.one_libsycl"]
    skipped = by_id(report)["image.one_libsycl"].detail
    assert skipped == f"this torch ({TORCH}+cpu) is not an XPU build: it needs no libsycl"
    assert by_id(report)["image.build"].detail == "built for the CPU only"
    assert not any(check.group == "device" for check in report.checks)


def test_operators_of_a_torchvision_that_works(target: Target, warm: Path) -> None:
    """vision.files needs its compiled readers: tests/e2e/test_components.py."""
    checks = ("vision.import", "vision.nms", "vision.roi_align")
    report = target.verify(*checks, path=[python_vision(target.work / "vision")], python=warm)
    assert {check.id: check.status for check in report.checks if check.group == "vision"} == dict.fromkeys(
        checks, "pass"
    )


def test_torchaudio_that_works(target: Target, warm: Path, audio: Path) -> None:
    report = target.verify("audio", path=[audio], python=warm)
    assert {check.status for check in report.checks if check.group == "audio"} == {"pass"}


@pytest.mark.parametrize(
    ("check", "code", "detail"),
    [
        ("vision.nms", _WRONG_NMS, "nms kept"),
        ("vision.roi_align", _WRONG_ALIGN, "roi_align is off by"),
        ("vision.import", "torchvision.version.cuda = '13.0'", "was built with CUDA 13.0, torch with none"),
        ("audio.lfilter", _FORGETFUL, "lfilter is off by"),
        ("audio.mel_spectrogram", _LOUDER, "the spectrogram is off by"),
        ("audio.import", "raise OSError('undefined symbol: x')", "torchaudio cannot be imported: OSError"),
    ],
)
def test_what_is_wrong_in_them_is_found(  # noqa: PLR0917
    target: Target, warm: Path, audio: Path, check: str, code: str, detail: str
) -> None:
    module = f"torch{check.partition('.')[0]}"
    site = audio if module == "torchaudio" else python_vision(target.work / "vision")
    report = target.verify(check, path=[site], mutation=code, module=module, python=warm)
    assert bad(report) == {check: "fail"}
    assert detail in by_id(report)[check].detail
