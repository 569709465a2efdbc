"""The step that unpacks the archives which a component's build would download itself. Pure."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from xpubuild.engine.model import XPUBUILD, Command, Step
from xpubuild.errors import UnsatisfiableError
from xpubuild.install.context import Context
from xpubuild.install.request import Choice
from xpubuild.recipe.model import Archive, Recipe
from xpubuild.supply.archives.model import LIST, file_name
from xpubuild.supply.archives.proof import UnpackedProof, unpacked_stamp

_DOWNLOAD = "import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])"


def needed(context: Context, name: str) -> dict[str, Archive]:
    """Return the archives of a component's build by name, without those that the user replaces.

    A variable with a value of its own, such as LLVM_SYSPATH in a site's recipe, names what is there already.
    """
    return _needed(context.recipe, context.choice, name)


def _needed(recipe: Recipe, choice: Choice, name: str) -> dict[str, Archive]:
    given = choice.switches[name]
    archives = recipe.components[name].build.archives
    return {key: item for key, item in archives.items() if not given.get(item.variable)}


def require_there(recipe: Recipe, choice: Choice) -> None:
    """Refuse a build that would download what is no longer there.

    Raises:
        UnsatisfiableError: an archive is gone, and the recipe has no folder in its place.
    """
    for name in choice.components:
        built = recipe.components[name].kind == "source"
        for key, item in _needed(recipe, choice, name).items() if built else ():
            if item.gone:
                raise _gone(recipe, name, key, item)


def _gone(recipe: Recipe, name: str, key: str, item: Archive) -> UnsatisfiableError:
    of = f" built from commit {item.commit}" if item.commit else ""
    return UnsatisfiableError(
        f"'{name}' of recipe '{recipe.name}' cannot be built: its {key} can no longer be downloaded",
        why=f"{item.url}: {item.gone}",
        fix=(
            f"omit --with {name}; or write a recipe that extends '{recipe.name}' and sets"
            f" components.{name}.build.env.{item.variable} to a folder with your own {key}{of}"
        ),
        commands=(f"xpubuild recipes show {recipe.name}",),
        evidence={"component": name, "archive": key, "url": item.url, "commit": item.commit},
    )


def folder(context: Context, name: str) -> Path:
    """Return where the archives for a component's build are unpacked."""
    return context.layout.build / "archives" / name


def unpacked_environment(context: Context, name: str) -> dict[str, str]:
    """Return the variables by which a component's build is told the unpacked folders."""
    place = folder(context, name)
    return {
        item.variable: str(place / key / item.folder)
        for key, item in needed(context, name).items()
        if item.url is not None
    }


def archives_step(context: Context, name: str) -> Step | None:
    """Return the step that fetches and unpacks archives; None where the build downloads none.

    An archive without a URL is left to the build and the network.
    """
    into = folder(context, name)
    items = {key: item for key, item in needed(context, name).items() if item.url is not None}
    if not items:
        return None
    return Step(
        id=f"{name}.archives",
        title=f"unpack archives that the build of {name} would download",
        commands=(
            Command(
                argv=(
                    XPUBUILD, "plumbing", "archives", str(into),
                    "--cache", str(context.facts.cache / "archives"),
                    *(part for key in items for part in ("--item", _item(key, items[key]))),
                ),
                tuning=context.downloads(),
                portable=tuple(_portable(str(context.layout.python), into, items)),
            ),
        ),
        proofs=(UnpackedProof(str(into)),),
        outputs=(str(into),),
        witnesses=(str(into / LIST),),
        fresh=(str(into),),
        outputs_stamp=functools.partial(unpacked_stamp, into),
    )  # fmt: skip


def _item(key: str, item: Archive) -> str:
    said = {"name": key, "url": item.url, "sha256": item.sha256, "folder": item.folder}
    return json.dumps({name: value for name, value in said.items() if value is not None})


def _portable(python: str, into: Path, items: Mapping[str, Archive]) -> Iterator[str]:
    """Yield shell lines that download, check and unpack with nothing but Python."""
    for key, item in items.items():
        place = into / file_name(item.url or "")
        module = "zipfile" if place.name.endswith(".zip") else "tarfile"
        yield f"mkdir -p -- {shlex.quote(str(into / key))}"
        yield shlex.join((python, "-c", _DOWNLOAD, item.url or "", str(place)))
        if item.sha256 is not None:
            yield f"printf '%s  %s\\n' {item.sha256} {shlex.quote(str(place))} | sha256sum --check --quiet"
        yield shlex.join((python, "-m", module, "-e", str(place), str(into / key)))
        yield f"rm -- {shlex.quote(str(place))}"
