"""The step that puts the chosen GCC where builds look for it by name, and its configuration files. Pure."""

from __future__ import annotations

from pathlib import Path

from xpubuild.artifacts.step_proofs import LinksProof
from xpubuild.engine.model import Command, Step
from xpubuild.install.context import Context

STEP = "compilers"
#: Variables that name a configuration file instead of the one beside icx and icpx (Intel's compiler guide).
_VARIABLES = {"icx": "ICXCFG", "icpx": "ICPXCFG"}


def _folder(context: Context) -> Path:
    return context.layout.build / "compilers"


def steps(context: Context) -> list[Step]:
    """Return the step that makes the links; nothing where PATH leads to the chosen compilers already."""
    names = context.facts.compilers.names
    if not names:
        return []
    folder = _folder(context)
    links = {str(folder / name): path for name, path in names.items()}
    return [
        Step(
            id=STEP,
            title=f"link {' and '.join(names)} to the chosen compilers",
            commands=(
                Command(argv=("mkdir", "-p", str(folder))),
                *(Command(argv=("ln", "-sfn", path, link)) for link, path in links.items()),
            ),
            proofs=(LinksProof(links),),
            outputs=tuple(links),
            witnesses=tuple(links),
        )
    ]


def needed(context: Context) -> tuple[str, ...]:
    """Return the steps that a build needs of these."""
    return (STEP,) if context.facts.compilers.names else ()


def path_prefix(context: Context) -> tuple[str, ...]:
    """Return the folder that builds search first."""
    return (str(_folder(context)),) if context.facts.compilers.names else ()


def _config_path(context: Context, program: str) -> Path:
    return _folder(context) / f"{program}.cfg"


def environment(context: Context) -> dict[str, str]:
    """Return what makes icx and icpx take the chosen GCC."""
    config = context.facts.compilers.config
    return {_VARIABLES[name]: str(_config_path(context, name)) for name in config}


def files(context: Context) -> dict[str, str]:
    """Return the configuration files of icx and icpx: path -> text."""
    return {str(_config_path(context, name)): text for name, text in context.facts.compilers.config.items()}
