"""A source tree of PyTorch in miniature, and the recipe that agrees with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.files import lay
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.tree import TreeReport, check_tree, expected

PIN, OTHER = "2" * 40, "3" * 40
GITMODULES = '[submodule "a"]\n\tpath = third_party/a\n\turl = /a\n[submodule "b"]\n\tpath=third_party/b\n'
#: A list in the form of upstream's since 2.13.
FORWARDING = """# USE_NINJA: gone
set(_ENV_ALIASES
  "CUDNN_LIB_DIR=CUDNN_LIBRARY"
)
set(_ENV_PASSTHROUGH
  BLAS  # of the CPU
  TORCH_XPU_ARCH_LIST
)
set(_LOW_PRIORITY_ALIASES "CUDAHOSTCXX=CUDA_HOST_COMPILER")
"""
SOURCE: dict[str, Any] = {
    "url": "/x",
    "version": "2.6.0a0",
    "configure_time": [{"url": "/ops", "pin_file": "third_party/xpu.txt", "commit": PIN}],
    "skip_submodules": ["third_party/a/deps/c"],
}


def write_tree(top: Path) -> Path:
    """Write a source tree with every file that is held against a recipe."""
    return lay(top, {
        "setup.py": 'raise SystemExit("this file must not be run")\n',
        "pyproject.toml": "[build-system]\nrequires = []\n",
        "version.txt": "2.6.0a0\n",
        "third_party/xpu.txt": f"{PIN}\n",
        ".ci/docker/ci_commit_pins/triton-xpu.txt": f"{PIN}\n",
        ".ci/docker/triton_version.txt": "3.2.0\n",
        ".gitmodules": GITMODULES,
        "third_party/a/.gitmodules": '[submodule "c"]\n\tpath = deps/c\n',
    })  # fmt: skip


def recipe(source: Any = None, triton: Any = None, **changes: Any) -> Recipe:
    torch = {"kind": "source", "dist": "torch", "source": {**SOURCE, **(source or {})}}
    components: dict[str, Any] = {"torch": torch}
    components["triton"] = {
        "kind": "source", "dist": "triton", "version": "3.2.0", "optional": True,
        "source": {"url": "/t", "commit": PIN}, **(triton or {}),
    }  # fmt: skip
    return Recipe.model_validate(
        {
            "schema": 1, "name": "2.6", "title": "t", "release": "2.6.0", "components": components,
            "needs": {"python": ">=3.9,<3.14"}, **changes,
        }
    )  # fmt: skip


def found(tree: Path, **changes: Any) -> TreeReport:
    return check_tree(expected(recipe(**changes), "torch"), tree)
