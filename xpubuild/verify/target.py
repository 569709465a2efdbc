"""Which interpreter is verified, in which environment, on which device."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import platformdirs

from xpubuild.engine.child import resolve_executable
from xpubuild.engine.environment import base_environment
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.verify.standin import environment
from xpubuild.workspace.activation import assignments, read_receipt
from xpubuild.workspace.layout import Layout

#: What the product is for; a receipt or --device says otherwise.
DEFAULT_DEVICE = "xpu"
# An interpreter outside a workspace keeps what decides which devices it sees and which libraries it loads.
_CALLERS = ("LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
_CALLERS_PREFIXES = (
    "ZE_", "ONEAPI_", "SYCL_", "UR_", "OCL_", "CCL_", "NCCL_", "I_MPI_", "CUDA_", "NVIDIA_", "PYTORCH_",
    "OMP_",
)  # fmt: skip


@frozen
class Target:
    """The interpreter, its complete environment, the device, and the tree that torch was built from."""

    python: Path
    env: dict[str, str]
    device: str
    source: Path | None = None
    stand_in: bool = False


def resolve_target(
    python: str | None, workspace: Path | None, device: str | None, *, stand_in: bool = False
) -> Target:
    """Return the target: an interpreter by path or name, or that of a workspace; on request on the stand-in.

    Raises:
        UsageError: the workspace has no receipt, neither was given, or the stand-in is not for this device or
            torch.
        ToolchainError: no program of that name is on PATH, or the stand-in cannot serve it.
    """
    target = _found(python, workspace, device)
    if not stand_in:
        return target
    if target.device != DEFAULT_DEVICE:
        raise UsageError(
            f"--stand-in is for --device {DEFAULT_DEVICE}, not {target.device}",
            fix=f"omit --stand-in, or pass --device {DEFAULT_DEVICE}",
        )
    env = environment(target.python, target.env, platformdirs.user_cache_path("xpubuild"))
    return replace(target, env=env, stand_in=True)


def on_stand_in(workspace: Path, env: dict[str, str]) -> dict[str, str]:
    """Return the environment of a workspace with the stand-in for a GPU as its XPU.

    Raises:
        UsageError: its torch is not for XPU.
        ToolchainError: the stand-in cannot serve it.
    """
    return environment(Layout(workspace).python, env, platformdirs.user_cache_path("xpubuild"))


def _found(python: str | None, workspace: Path | None, device: str | None) -> Target:
    env = base_environment()
    env |= {name: value for name, value in os.environ.items() if _decides(name)}
    if python is not None:
        named = Path(python).expanduser()
        path = named.absolute() if os.sep in python else Path(resolve_executable(python, env))
        return Target(path, env, device or DEFAULT_DEVICE)
    if workspace is None:
        raise UsageError("nothing to verify", fix="pass --python, --workspace or a recipe")
    changes = assignments(workspace, env)
    env.update({name: value for name, value in changes.items() if value is not None})
    summary = read_receipt(workspace).get("summary", {})
    built_for = device or str(summary.get("target", DEFAULT_DEVICE))
    tree = Path(str(summary.get("torch_tree", Layout(workspace).src / "torch")))
    return Target(Layout(workspace).python, env, built_for, tree if tree.is_dir() else None)


def _decides(name: str) -> bool:
    return name in _CALLERS or name.startswith(_CALLERS_PREFIXES)
