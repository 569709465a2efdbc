"""Whether the package indexes have the wheels that a recipe takes prebuilt."""

from __future__ import annotations

import shlex

from xpubuild.doctor.checks.python import interpreter
from xpubuild.doctor.kit import BUILD, Look, Outcome, check, finding, ok, skip, todo


@check(
    "network.wheels",
    profiles=BUILD,
    needs="python.version network.reach",
    live=True,
    recipe=True,
    families="F-wrong-torch-or-triton-package T-package-resolver",
    deadline_s=30,
)
def network_wheels(look: Look) -> Outcome:
    """The prebuilt wheels of the recipe exist for this Python.

    Some recipes take a component as a prebuilt wheel; quickstart takes torch so. This check asks the
    package indexes and wheel folders that pip is configured with, and then those of the recipe, whether
    they have that wheel for the selected Python. uv asks, and nothing is downloaded. Without it,
    `xpubuild install` ends before its first step (exit code 30).

    The fix names the versions of Python for which the wheel is there: choose one with `--python`.
    """
    facts, recipe = interpreter(look), look.wanted
    if facts is None or facts.error or look.recipe is None or recipe is None:
        return skip("no Python was found")
    from xpubuild.recipe.load import requirement_file  # noqa: PLC0415 - pydantic, and only with a recipe
    from xpubuild.recipe.prebuilt import prebuilt  # noqa: PLC0415
    from xpubuild.supply.uv.ask import Asker  # noqa: PLC0415
    from xpubuild.supply.uv.program import find_uv  # noqa: PLC0415

    loaded = look.recipe
    needed = [
        item for item in recipe.components.values() if not item.optional and recipe.target in item.targets
    ]
    wheels = prebuilt(needed, lambda name: requirement_file(loaded, name).read_text("utf-8"))
    if not wheels:
        return skip("the recipe takes no prebuilt wheel")
    uv = find_uv()
    if uv.why:
        return finding(uv.why, todo("install uv beside xpubuild", *([uv.remedy] if uv.remedy else [])))
    error = Asker(uv.path, facts.version, look.environ).first_lacking(wheels, hasty=True)
    if error is None:
        told = ", ".join(f"{item.dist} {item.version}" for item in wheels)
        return ok(f"{told} for Python {facts.version}", python=facts.version)
    others = error.evidence.get("other_pythons") or ()
    told = f"there is one for Python {', '.join(others)}" if others else error.why
    found = (
        item.executable
        for item in look.host.python.found
        if any(item.version.startswith(f"{other}.") for other in others)
    )
    lines = [f"xpubuild install {shlex.quote(recipe.name)} --python {shlex.quote(path)}" for path in found]
    return finding(f"{error.what}; {told}", todo(error.fix, *(lines[:1] or error.commands)), **error.evidence)
