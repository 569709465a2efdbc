"""The step that prepares local copies of the repositories that a component's build clones. Pure."""

from __future__ import annotations

import json
from pathlib import Path

from xpubuild.engine.model import XPUBUILD, Command, Step
from xpubuild.install.context import Context
from xpubuild.recipe.model import ConfigureTime
from xpubuild.supply.git.serving import CONFIG, LIST, ServedProof


def configured(context: Context, name: str) -> tuple[ConfigureTime, ...]:
    """Return the repositories that a component's build clones for this target, as the recipe has them.

    None where it is built with the user's edits: somebody who edits a pin file wants the build to follow it.
    """
    source = context.component(name).source
    if source is None or name in context.facts.dirty:
        return ()
    return tuple(item for item in source.configure_time if item.when in ("always", context.choice.target))


def folder(context: Context, name: str) -> Path:
    """Return where the repositories for a component's build are."""
    return context.layout.build / "repositories" / name


def served_environment(context: Context, name: str) -> dict[str, str]:
    """Return what leads the git of a component's build to the repositories; nothing where it clones none."""
    if not configured(context, name):
        return {}
    return {"GIT_CONFIG_GLOBAL": str(folder(context, name) / CONFIG)}


def repositories_step(context: Context, name: str, commit: str) -> Step:
    """Return the step that serves the repositories which the tree at ``commit`` asks for."""
    into = folder(context, name)
    items = [
        json.dumps({key: value for key in ("url", "path", "pin_file", "commit", "ref")
                    if (value := getattr(item, key)) is not None})
        for item in configured(context, name)
    ]  # fmt: skip
    return Step(
        id=f"{name}.repositories",
        title=f"fetch repositories that the build of {name} clones",
        needs=(f"{name}.source",),
        commands=(
            Command(
                argv=(
                    XPUBUILD, "plumbing", "repositories", str(into),
                    "--tree", str(context.layout.src / name), "--commit", commit,
                    "--cache", str(context.facts.cache),
                    *(part for item in items for part in ("--item", item)),
                ),
                tuning=context.downloads(),
                # A script has the network: its build clones as upstream's own does.
                portable=(),
            ),
        ),
        proofs=(ServedProof(str(into)),),
        outputs=(str(into),),
        witnesses=(str(into / LIST), str(into / CONFIG)),
        fresh=(str(into),),
        always_prove=True,
    )  # fmt: skip
