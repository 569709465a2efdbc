"""Group ``import``: torch can be imported, and its build information is right."""

from __future__ import annotations

import ctypes
import sys
from importlib import metadata
from pathlib import Path

from .context import CheckSkippedError, SuiteContext, require
from .registry import IMAGE, SMOKE, check

# c10::detail::torchCheckFail(char const*, char const*, unsigned, std::string const&): every extension that
# uses TORCH_CHECK needs it, and its name carries the string type of the C++ ABI. libc10 has had it since
# torch 1.8.
_CHECK_FAIL = {
    1: "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    0: "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
}


@check("import.torch", "torch can be imported", needs=(), suites=SMOKE, deadline_s=120)
def import_torch(context: SuiteContext) -> None:
    """Import torch and record its build information."""
    torch = context.torch
    xpu = getattr(torch, "xpu", None)
    context.facts["torch"] = {
        "version": str(torch.__version__),
        "git_version": str(torch.version.git_version),
        "xpu": bool(xpu is not None and xpu._is_compiled()),
        "xpu_version": getattr(torch.version, "xpu", None),
        "cuda_version": torch.version.cuda,
        "cxx11_abi": int(torch._C._GLIBCXX_USE_CXX11_ABI),
        "location": str(Path(torch.__file__).parent),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    context.note(f"torch {torch.__version__}")


@check(
    "import.abi",
    "the C++ ABI of libc10 matches what torch reports",
    needs=("import.torch",),
    suites=(*SMOKE, *IMAGE),
)
def import_abi(context: SuiteContext) -> None:
    """Compare `torch.compiled_with_cxx11_abi()` with the symbols that libc10 exports."""
    torch = context.torch
    flag = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    found = [abi for abi, symbol in _CHECK_FAIL.items() if hasattr(library, symbol)]
    context.metric("reported", flag)
    context.metric("exported", found)
    problem = f"torch reports C++ ABI {flag}, but libc10.so exports torchCheckFail for {found}"
    require(found == [flag], problem)
    context.note(f"_GLIBCXX_USE_CXX11_ABI={flag}")


@check("import.ipex", "Intel's extension is for this torch and can be imported", needs=("import.torch",))
def import_ipex(context: SuiteContext) -> None:
    """Compare the releases before the import: with another torch the extension ends the process."""
    if "ipex" not in context.required:
        raise CheckSkippedError("the extension is retired: only --require ipex imports it")
    name, torch = "intel_extension_for_pytorch", str(context.torch.__version__)
    version = metadata.version(name)
    paired = version.split(".")[:2] == torch.split(".")[:2]
    require(paired, f"{name} {version} is for another release than torch {torch}")
    context.imported(name, "ipex")
