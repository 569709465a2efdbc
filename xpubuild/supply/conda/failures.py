"""The errors for failures of conda channels and solvers."""

from __future__ import annotations

from collections.abc import Sequence

from xpubuild.errors import FetchError, RecipeError, ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.supply.conda.channels import Channel
from xpubuild.supply.conda.model import PLATFORM


def unsatisfiable(specs: Sequence[str], channels: Sequence[Channel], why: str) -> UnsatisfiableError:
    """Return the error for specifications that no set of packages meets; ``why`` is the solver's."""
    return UnsatisfiableError(
        "the conda packages that the recipe requires cannot be installed together",
        why=why,
        fix="change toolchain.conda.packages of the recipe, or use other channels with --conda-channel",
        evidence={
            "packages": list(specs),
            "channels": [item.shown for item in channels],
            "platform": PLATFORM,
        },
    )


def unreachable(channels: Sequence[Channel], why: str) -> FetchError:
    """Return the error for a channel that does not answer."""
    return FetchError(
        "a conda channel could not be read",
        why=why,
        fix=(
            "check the address and the proxy settings (HTTPS_PROXY), or use another channel with "
            "--conda-channel"
        ),
        evidence={"channels": [item.shown for item in channels]},
    )


def invalid(specs: Sequence[str], why: str) -> RecipeError:
    """Return the error for specifications or channels that the solver cannot read."""
    return RecipeError(
        "the recipe has invalid conda specifications",
        why=why,
        fix="write them as 'cmake >=3.27,<4' in toolchain.conda.packages",
        evidence={"packages": list(specs)},
    )


def tool_failed(tool: str, why: str) -> ToolchainError:
    """Return the error for a tool that failed in a way of its own."""
    return ToolchainError(
        f"{tool} failed",
        why=why or f"{tool} said nothing",
        fix="run the same command again; if it fails again, report it with this message",
    )


def of_kind(kind: str, specs: Sequence[str], channels: Sequence[Channel], why: str) -> XpuBuildError:
    """Return the error for one of the kinds that ``rattler_child`` knows."""
    if kind == "unsatisfiable":
        return unsatisfiable(specs, channels, why)
    if kind == "unreachable":
        return unreachable(channels, why)
    return invalid(specs, why) if kind == "invalid" else tool_failed("py-rattler", why)
