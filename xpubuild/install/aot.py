"""The GPUs that SYCL kernels are compiled for ahead of time, as the environment of a build has them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from xpubuild.artifacts.expectation import OFF
from xpubuild.install.context import Context

_LIST = "TORCH_XPU_ARCH_LIST"


def wants_xpu(env: Mapping[str, str]) -> bool:
    """Whether a build for XPU leaves XPU on; a recipe may switch it off."""
    return env.get("USE_XPU", "1").lower() not in OFF


def targets_in(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the AOT targets that an environment names."""
    return tuple(part.strip() for part in env.get(_LIST, "").replace(";", ",").split(",") if part.strip())


def audited_targets(context: Context, name: str, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the AOT targets that a component's wheel must have native code for; None: it has no kernels."""
    if not context.component(name).audit.device_code:
        return None
    if context.choice.target != "xpu" or not wants_xpu(env):
        return None
    return targets_in(env) if _LIST in env else context.choice.arch
