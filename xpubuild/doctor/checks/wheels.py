"""Whether the package indexes have the wheels that a recipe takes prebuilt."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xpubuild.doctor.checks.python import interpreter
from xpubuild.doctor.kit import BUILD, Fix, Look, Outcome, check, finding, ok, skip
from xpubuild.errors import ToolchainError, XpuBuildError

if TYPE_CHECKING:
    from xpubuild.supply.uv.ask import Prebuilt


@check(
    "network.wheels",
    profiles=BUILD,
    needs=("python.version", "network.reach"),
    live=True,
    recipe=True,
    families=("F-wrong-torch-or-triton-package", "T-package-resolver"),
    deadline_s=30,
)
def network_wheels(look: Look) -> Outcome:
    """The prebuilt wheels of the recipe exist for this Python.

    Some recipes take a component as a prebuilt wheel; quickstart takes torch so. This check asks the
    package indexes and wheel folders that pip is configured with, and then those of the recipe, whether
    they have that wheel for the selected Python. uv asks, and nothing is
    downloaded. Without it, `xpubuild install` ends before its first step (exit code 30).

    The fix names the versions of Python for which the wheel is there: choose one with `--python`.
    """
    facts = interpreter(look)
    loaded = look.recipe
    if facts is None or facts.error or loaded is None:
        return skip("no Python was found")
    from xpubuild.recipe.load import requirement_file  # noqa: PLC0415 - pydantic, and only with a recipe
    from xpubuild.recipe.prebuilt import prebuilt  # noqa: PLC0415

    needed = [
        item
        for item in loaded.recipe.components.values()
        if not item.optional and loaded.recipe.target in item.targets
    ]
    wheels = prebuilt(needed, lambda name: requirement_file(loaded, name).read_text("utf-8"))
    if not wheels:
        return skip("the recipe takes no prebuilt wheel")
    error = _lacking(wheels, facts.version, look.environ)
    if error is None:
        told = ", ".join(f"{item.dist} {item.version}" for item in wheels)
        return ok(f"{told} for Python {facts.version}", python=facts.version)
    others = error.evidence.get("other_pythons")
    told = f"there is one for Python {', '.join(others)}" if others else error.why
    fix = Fix(error.fix, _commands(look, error))
    return finding(f"{error.what}; {told}", fix, **error.evidence)


def _lacking(wheels: Sequence[Prebuilt], version: str, environ: Mapping[str, str]) -> XpuBuildError | None:
    """Return why a wheel cannot be had; pip's configuration may be the reason."""
    from xpubuild.supply.uv.ask import Asker  # noqa: PLC0415 - for recipes with wheels alone
    from xpubuild.supply.uv.program import find_uv  # noqa: PLC0415

    uv = find_uv(environ)
    if uv.why:
        return ToolchainError(
            uv.why, fix="install uv beside xpubuild", commands=(uv.remedy,) if uv.remedy else ()
        )
    return Asker(uv.path, version, environ).first_lacking(wheels, hasty=True)


def _commands(look: Look, error: XpuBuildError) -> tuple[str, ...]:
    """Return the install with another interpreter of this host that has the wheel, or the error's own."""
    others = error.evidence.get("other_pythons") or ()
    name = look.recipe.recipe.name if look.recipe else ""
    found = [
        item.executable
        for item in look.host.python.found
        if any(item.version.startswith(f"{other}.") for other in others)
    ]
    if not found:
        return error.commands
    return (f"xpubuild install {shlex.quote(name)} --python {shlex.quote(found[0])}",)
