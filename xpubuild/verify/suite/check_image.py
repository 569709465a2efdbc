"""Group ``image``: checks of a torch on machines without a GPU, such as those that build images."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .children import Talking
from .context import CheckSkippedError, SuiteContext, require
from .registry import IMAGE, check
from .runtime_tools import compiler

#: Parts of the driver, which the machine that runs the image provides.
_DRIVER = re.compile(r"^(libcuda\.so|libnvidia-|libze_intel|libze_loader\.so|libigdrcl|libhsa-runtime)")
_LOADER = re.compile(r"ld(-linux[-\w]*|64|-[\d.]+)?\.so")
#: A line of what it lists, as ldd has it do: name, and file or "not found".
_LISTED = re.compile(r"^\t(\S+) => (not found|.+?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
_GRACE_S = 10.0
#: Set up beside each other in one environment.
_PACKAGES = ("torch", "triton", "torchvision", "torchaudio", "xpubuild_ops", "intel_extension_for_pytorch")


def _is_xpu(context: SuiteContext) -> bool:
    xpu = getattr(context.torch, "xpu", None)
    return bool(xpu is not None and xpu._is_compiled())


@dataclass
class Needed:
    """Libraries that others need: found (name -> file), or missing (name -> file that needs it)."""

    found: dict[str, Path] = field(default_factory=dict)
    missing: dict[str, Path] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


def needed(libraries: Iterable[Path]) -> Needed:
    """Have the dynamic linker list what libraries need, directly and indirectly; it starts none of them.

    Libraries of one process satisfy each other: torch loads its own by their path before what needs them.
    """
    made, own = Needed(), {path.name: path for path in libraries}
    loader = next(path for path in _mapped() if _LOADER.match(Path(path).name))
    for path in own.values():
        process = Talking([loader, str(path)], {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"})
        listed = _LISTED.findall(process.output.read().decode("utf-8", "replace"))
        if process.end(_GRACE_S) and not listed:
            made.damaged.append(f"{path} cannot be read by {loader}: it is damaged")
        for name, where in listed:
            if name in own or where != "not found":
                made.found[name] = own.get(name) or Path(where)
            else:
                made.missing.setdefault(name, path)
    return made


def _libraries(context: SuiteContext) -> list[Path]:
    """Return the shared libraries of torch and of the packages that are installed with it."""
    site = Path(context.torch.__file__).parent.parent
    folders = [site / name for name in _PACKAGES if (site / name).is_dir()]
    return sorted(path for folder in folders for path in folder.rglob("*.so*") if _is_elf(path))


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return stream.read(4) == b"\x7fELF"
    except OSError:
        return False


@check(
    "image.linkage",
    "all libraries that torch needs are installed",
    needs=("import.torch",),
    suites=IMAGE,
    deadline_s=120,
)
def linkage(context: SuiteContext) -> None:
    """List what torch's libraries need; nothing is loaded, the driver may be missing."""
    libraries = _libraries(context)
    own = Path(context.torch.__file__).parent / "lib"
    require(any(path.parent == own for path in libraries), f"{own} contains no libraries")
    seen = needed(libraries)
    require(not seen.damaged, "; ".join(seen.damaged[:3]))
    driver = sorted(name for name in seen.missing if _DRIVER.match(name))
    missing = [
        f"{name}, which {path.name} needs" for name, path in seen.missing.items() if name not in driver
    ]
    context.metrics.update(libraries=len(libraries), needed=len(seen.found), from_the_driver=driver)
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    require(not missing, f"not found: {'; '.join(missing[:4])}{more}")
    context.note(f"{len(libraries)} libraries need {len(seen.found)} others")
    if driver:
        context.note(f"the driver has to provide {', '.join(driver)}")


@check(
    "image.one_libsycl", "an XPU build uses exactly one SYCL runtime", needs=("image.linkage",), suites=IMAGE
)
def one_libsycl(context: SuiteContext) -> None:
    """Search for libsycl among the needed libraries and those that this process has loaded."""
    wanted = {path.resolve() for name, path in needed(_libraries(context)).found.items() if _is_sycl(name)}
    loaded = {Path(line) for line in _mapped() if _is_sycl(Path(line).name)}
    names = sorted(str(path) for path in wanted | {path.resolve() for path in loaded})
    context.metric("libsycl", names)
    if not _is_xpu(context):
        require(not loaded, f"this torch is not an XPU build, but loads {', '.join(map(str, loaded))}")
        version = context.torch.__version__
        raise CheckSkippedError(f"this torch ({version}) is not an XPU build: it needs no libsycl")
    require(names, "this torch is an XPU build, but none of its libraries needs libsycl")
    require(len(names) == 1, f"{len(names)} SYCL runtimes found: {', '.join(names)}")
    context.note(names[0])


def _is_sycl(name: str) -> bool:
    return re.match(r"libsycl(-preview)?\.so", name) is not None


def _mapped() -> list[str]:
    """Return the files that this process has mapped."""
    lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
    return sorted({line.split(None, 5)[5] for line in lines if line.count("/")})


@check("image.build", "torch reports its backends correctly", needs=("import.torch",), suites=IMAGE)
def build(context: SuiteContext) -> None:
    """Compare the backends (XPU, CUDA, CPU) that torch reports with its libraries."""
    torch = context.torch
    own = {path.name for path in (Path(torch.__file__).parent / "lib").glob("*.so*")}
    claims = {"xpu": _is_xpu(context), "cuda": torch.version.cuda is not None}
    for name, claimed in claims.items():
        there = f"libtorch_{name}.so" in own
        require(
            there == claimed,
            f"torch reports that it was built {'with' if claimed else 'without'} {name.upper()}, "
            f"but libtorch_{name}.so is {'installed' if there else 'missing'}",
        )
    kinds = [name.upper() for name, claimed in claims.items() if claimed]
    context.metric("built_for", kinds or ["CPU"])
    context.note(f"built for {' and '.join(kinds or ['the CPU only'])}")


@check(
    "image.compile",
    "torch.compile works without a device",
    needs=("import.torch",),
    suites=IMAGE,
    deadline_s=300,
)
def compile_only(context: SuiteContext) -> None:
    """Compile a function for the CPU with inductor."""
    torch = context.torch

    def block(left: Any, right: Any) -> Any:
        return (left @ right).relu().sum(dim=-1)

    if compiler() is None:
        raise CheckSkippedError("inductor needs a C++ compiler")
    left, right = torch.randn(8, 4), torch.randn(4, 6)
    found = torch.compile(block, fullgraph=True)(left, right)
    close = torch.allclose(found, block(left, right), rtol=1e-4, atol=1e-5)
    require(close, "the compiled function gives another result than eager mode")
