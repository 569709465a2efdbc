"""Which environment variables the build of a tree reads, by upstream's own list: PyTorch has one since 2.13.

Variables that begin with USE_ or BUILD_ are all forwarded to CMake, so one of its files must name them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from xpubuild.machine.readers import read_text

FILE = "cmake/EnvVarForwarding.cmake"
#: What is read, but not forwarded by the file: name -> who reads it.
ELSEWHERE = {
    **dict.fromkeys(("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS"), "CMake"),
    **dict.fromkeys(("DEBUG", "REL_WITH_DEB_INFO", "MAX_JOBS"), "pyproject.toml"),
    **dict.fromkeys(("PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER"), "tools/metadata"),
    "PYTORCH_EXTRA_INSTALL_REQUIREMENTS": "tools/metadata",
    "TORCH_NATIVE_AOT": "caffe2/CMakeLists.txt",
    # torch-xpu-ops release/2.13 and 2.14, which CMake clones: CMakeLists.txt and cmake/.
    **dict.fromkeys(
        (
            "BUILD_SEPARATE_OPS", "BUILD_SPLIT_KERNEL_LIB", "CCL_ROOT", "DEBUG_XPU", "IS_XPU_CI", "MKLROOT",
            "USE_C10D_XCCL", "USE_ONEMKL_XPU", "USE_SYCLTLA", "USE_XCCL", "XPU_DEVICE_DEBUG",
        ),
        "torch-xpu-ops",
    ),
}  # fmt: skip
_LISTS = re.compile(r"\bset\(\s*_(?:ENV_ALIASES|ENV_PASSTHROUGH|LOW_PRIORITY_ALIASES)\s([^)]*)\)")
_COMMENT = re.compile(r"#[^\n]*")
#: Tools of the build read these, CMake first, or the file forwards them as they are.
_OF_TOOLS = re.compile(
    r"(?:CMAKE|S?CCACHE|NINJA|SKBUILD|GCC|SYCL|OMP)_\w+|PYTHON\w+|TMPDIR|CPATH|LIBRARY_PATH"
    r"|C(?:PLUS)?_INCLUDE_PATH|\w+EXITCODE(?:__TRYRUN_OUTPUT)?"
)
_FORWARDED = re.compile(r"(?:USE|BUILD)_\w+")


def forwarded(tree: Path) -> frozenset[str]:
    """Return the variables that a tree's list names; empty where it has no such file."""
    text = _COMMENT.sub("", read_text(tree / FILE, tree) or "")
    words = (word.strip('"') for body in _LISTS.findall(text) for word in body.split())
    return frozenset(word.partition("=")[0] for word in words)


def unread(tree: Path, names: Collection[str], listed: Collection[str]) -> frozenset[str]:
    """Return which of some variables nothing in a tree reads; ``listed`` are those that its list names.

    Files of third parties are looked at last, and only where something is left.
    """
    left = {name for name in names if name not in listed and not _OF_TOOLS.fullmatch(name)} - ELSEWHERE.keys()
    for path in _files(tree):
        if not left:
            break
        text = _COMMENT.sub("", read_text(path, tree) or "")
        left -= {name for name in left if name in text and _pattern(path, name).search(text)}
    return frozenset(left)


def _pattern(path: Path, name: str) -> re.Pattern[str]:
    if path.suffix == ".py":
        return re.compile(rf"[\"']{name}[\"']")
    return re.compile(rf"\b{name}\b" if _FORWARDED.fullmatch(name) else rf"\bENV\{{{name}\}}")


def _files(tree: Path) -> Iterator[Path]:
    """Yield what reads the environment: what is left of setup.py, and the files of CMake."""
    yield from (tree / "setup.py", *sorted((tree / "tools" / "setup_helpers").glob("*.py")))
    for top in (tree, tree / "third_party"):
        for folder, folders, files in os.walk(top):
            folders[:] = sorted({*folders} - {".git", "build", "third_party"})
            for name in sorted(files):
                if name == "CMakeLists.txt" or name.endswith(".cmake"):
                    yield Path(folder, name)
