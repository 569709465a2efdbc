"""Finding and reading recipes: by name in the search path, or by file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import platformdirs
import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from xpubuild.errors import RecipeError, did_you_mean
from xpubuild.machine.versions import parse
from xpubuild.recipe.facts import carried, look_up
from xpubuild.recipe.model import LoadedRecipe, Recipe
from xpubuild.recipe.order import in_order
from xpubuild.resources import docs_page, recipes_dir
from xpubuild.safe_yaml import read_yaml_strict
from xpubuild.untrusted import MOST_RECIPE_BYTES, UntrustedError, read_text

_SUFFIX = ".yaml"
_COMPONENTS = "components"
_DEEPEST = 8
_MOST_PROBLEMS = 5
_UNKNOWN = "extra_forbidden"
_PATCH = re.compile(r"(\d+\.\d+)\.\d+(?:\.post\d+|rc\d+)?")
#: What the own file of a component says of a recipe that it is laid over; the rest is about the file.
_OF_COMPONENTS = (_COMPONENTS, "facts", "costs")
#: What makes a recipe the recipe that it is; a patch release cannot be of another line or format.
_FIXED = ("schema", "name", "extends", "abstract", "release", "patches")


def search_path() -> tuple[Path, ...]:
    """Return the folders with recipes: XPUBUILD_RECIPES, the user's, the site's, those of xpubuild."""
    own = [Path(item) for item in os.environ.get("XPUBUILD_RECIPES", "").split(os.pathsep) if item]
    user = platformdirs.user_config_path("xpubuild") / "recipes"
    site = platformdirs.site_config_path("xpubuild") / "recipes"
    return (*own, user, site, recipes_dir())


def available(besides: Path | None = None) -> dict[str, Path]:
    """Return recipe name -> file; a folder earlier in the search path hides later ones.

    ``besides`` is left out: a site's quickstart.yaml may extend the quickstart that it hides.
    """
    found: dict[str, Path] = {}
    for folder in search_path():
        for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else ():
            if besides is None or path.resolve() != besides.resolve():
                found.setdefault(path.stem, path)
    return found


def component_files(folders: Iterable[Path] = ()) -> dict[str, Path]:
    """Return component name -> its own file, of ``components`` below some folders and the search path."""
    places = [folder / _COMPONENTS for folder in (*folders, *search_path())]
    files = [path for place in places if place.is_dir() for path in sorted(place.glob(f"*{_SUFFIX}"))]
    return {path.stem: path for path in reversed(files)}


def line_of(name: str) -> str | None:
    """Return the line that a patch release belongs to, ``2.7`` for ``2.7.0``; None for any other name."""
    found = _PATCH.fullmatch(name)
    return found[1] if found is not None else None


def known_releases(document: Mapping[str, Any]) -> list[str]:
    """Return the releases of a line that can be asked for, the newest (the recipe itself) first."""
    newest, patches = document.get("release"), document.get("patches")
    first = [str(newest)] if newest is not None else []
    return [*first, *reversed(in_order(map(str, patches if isinstance(patches, Mapping) else ())))]


def find(name: str, *, besides: Path | None = None) -> Path:
    """Return the file of a recipe given by name or by path; ``besides`` is not looked at.

    A patch release such as 2.7.0 is in the file of its line, unless it has a file of its own.

    Raises:
        RecipeError: there is none; the message lists what there is.
    """
    if os.sep in name or name.endswith((_SUFFIX, ".yml")):
        path = Path(name).expanduser()
        if path.is_file():
            return path.absolute()
        raise RecipeError(
            f"the recipe file {name} was not found",
            why="there is no such file" if not path.exists() else "it is not a file",
            fix="pass the path of a recipe file, or the name of a recipe",
            commands=("xpubuild recipes list",),
        )
    names = available(besides)
    path_or_none = names.get(name) or names.get(line_of(name) or "")
    if path_or_none is not None:
        return path_or_none
    known = in_order(name for name in names if not is_abstract(names[name]))
    raise RecipeError(
        f"there is no recipe named '{name}'",
        why="known recipes: " + ", ".join(known) + did_you_mean(name, known),
        fix="use one of these, or pass the path of a recipe file"
        + (f"; to read the file {name}, write ./{name}" if Path(name).is_file() else ""),
        commands=("xpubuild recipes list",),
    )


def is_abstract(path: Path) -> bool:
    """Whether a recipe is there for others to extend only; one that cannot be read is not."""
    try:
        return bool(read_document(path).get("abstract"))
    except RecipeError:
        return False


def load(name: str, with_: Collection[str] = (), *, _above: tuple[str, ...] = ()) -> LoadedRecipe:
    """Read, merge with what it extends, and check a recipe; ``name`` may be a patch release of a line.

    Components ``with_`` that it does not have are taken from their own files, where there are such, and so
    are those that its components need.

    Raises:
        RecipeError: not found, not YAML, not a recipe, or a release that its line does not have.
    """
    path = find(name)
    document, folders = _merged(path, depth=0)
    document = _released(document, path, name)
    # It grows as it is gone through. ``_above`` are components whose files are being read.
    missing = [*with_, *_needed(document)]
    files = component_files(folders) if missing else {}
    for component in missing:
        known = component in _above or look_up(document, f"{_COMPONENTS}.{component}") is not None
        if component in files and not known:
            over = _of_component(component, files[component], _above)
            document = carried(document, over, merge(document, over))
            folders = tuple(dict.fromkeys((*folders, files[component].parent)))
            missing += _needed(over)
    return validated(document, path, folders)


def _needed(document: Mapping[str, Any]) -> list[str]:
    """Return what components of a document need and it does not have; the schema is not yet checked."""
    blocks = document.get(_COMPONENTS)
    blocks = blocks if isinstance(blocks, Mapping) else {}
    needs = [block.get("needs") for block in blocks.values() if isinstance(block, Mapping)]
    return [str(need) for some in needs if isinstance(some, list) for need in some if need not in blocks]


def _of_component(name: str, path: Path, above: tuple[str, ...]) -> dict[str, Any]:
    """Return what the own file of a component says; what is wrong in it is reported of the file itself."""
    load(str(path), _above=(*above, name))
    document = read_document(path)
    if list(document.get(_COMPONENTS, ())) != [name]:
        raise RecipeError(
            f"the file {path} is not that of the component '{name}'",
            why="the file of a component has one block below 'components', of the name of the file",
            fix=f"put everything else into a recipe; see {docs_page('how-to/add-a-component.md')}",
        )
    return {key: document[key] for key in _OF_COMPONENTS if key in document}


def release_of(loaded: LoadedRecipe, version: str) -> LoadedRecipe:
    """Return one of the releases of a line that is already read.

    Raises:
        RecipeError: it has no such release, or what it says about it breaks the schema.
    """
    document = _patched(loaded.document, loaded.recipe.name, version)
    return validated(document, loaded.path, loaded.folders)


def validated(document: dict[str, Any], path: Path, folders: tuple[Path, ...]) -> LoadedRecipe:
    """Return a merged document as a recipe.

    Raises:
        RecipeError: it breaks the schema; each problem is named.
    """
    try:
        recipe = Recipe.model_validate(document)
    except ValidationError as error:
        # A misspelt key first: what is missing often follows from it.
        items = sorted(error.errors(include_url=False), key=lambda item: item["type"] != _UNKNOWN)
        problems = [f"{_key(item) or 'recipe'}: {_wording(item)}" for item in items]
        more = f" (and {len(problems) - _MOST_PROBLEMS} more)" if len(problems) > _MOST_PROBLEMS else ""
        raise RecipeError(
            f"the recipe {path} does not match the schema",
            why="; ".join(problems[:_MOST_PROBLEMS]) + more,
            fix=f"correct these keys; {docs_page('reference/recipe.md')} lists all keys",
            evidence={"problems": problems},
        ) from error
    return LoadedRecipe(recipe=recipe, path=path, folders=folders, document=document)


def read_document(path: Path) -> dict[str, Any]:
    """Read one YAML file as a mapping.

    Raises:
        RecipeError: unreadable, not YAML, or not a mapping.
    """
    try:
        document = read_yaml_strict(read_text(path, MOST_RECIPE_BYTES))
    except (OSError, UnicodeDecodeError, UntrustedError) as error:
        fix = "check its name, permissions, size and encoding (UTF-8)"
        raise RecipeError(f"the recipe {path} cannot be read", why=str(error), fix=fix) from error
    except yaml.YAMLError as error:
        raise RecipeError(
            f"the recipe {path} is not valid YAML", why=str(error), fix="correct this line"
        ) from error
    except RecursionError as error:
        raise RecipeError(f"the recipe {path} is nested too deeply", fix="use less nesting") from error
    if not isinstance(document, dict):
        raise RecipeError(
            f"the recipe {path} is not a mapping",
            why="the file is empty" if document is None else "its top level has no keys",
            fix=f"start it with 'schema: 1' and 'name: …'; see {docs_page('reference/recipe.md')}",
        )
    return document


def _merged(path: Path, depth: int) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """Return the document with what it extends below it, and the folders of all files that were read."""
    document = read_document(path)
    parent = document.get("extends")
    if parent is None:
        return document, (path.parent,)
    if isinstance(parent, (int, float)) and not isinstance(parent, bool):
        raise _cannot_extend(
            path,
            f"'extends' is {parent}, which YAML reads as a number, not as a name",
            'put the name in quotes, such as extends: "2.7" (without them, 2.10 would become 2.1)',
        )
    if not isinstance(parent, str):
        raise _cannot_extend(path, "'extends' must be the name of one recipe")
    if depth >= _DEEPEST:
        raise _cannot_extend(path, "recipes extend each other in a circle")
    below = _below(path, parent)
    base, folders = _merged(below, depth + 1)
    base = _released(base, below, parent)
    own, inherited = document.get("release"), base.get("release")
    numbered = line_of(parent) is not None and own is not None and inherited is not None
    if numbered and parse(str(own)) != parse(str(inherited)):
        # The sources of one patch release under the number of another.
        raise _cannot_extend(
            path,
            f"it extends '{parent}', which is release {inherited}, but sets release {own}",
            f"remove 'release', or extend '{line_of(parent)}' and set the sources of {own}",
        )
    base.pop("abstract", None)
    if path.stem != below.stem:
        base.pop("patches", None)  # they are releases of that line; a recipe of another name is none
    merged = _with_forks(base, merge(base, document))
    return carried(base, document, merged), tuple(dict.fromkeys((path.parent, *folders)))


def _with_forks(base: Mapping[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    """Note of each repository that a build clones which one of the extended recipe it takes the place of."""

    def cloned(document: Mapping[str, Any], name: str) -> list[Any]:
        found = look_up(document, f"components.{name}.source.configure_time", ())
        whole = isinstance(found, list) and all(isinstance(item, Mapping) for item in found)
        return found if whole else []

    components = merged.get("components")
    for name in components if isinstance(components, Mapping) else ():
        theirs, forked = cloned(base, name), list[Any]()
        for item in cloned(merged, name):
            path, url = item.get("path"), item.get("url")
            known = next((one for one in theirs if path is not None and one.get("path") == path), item)
            if url != known.get("url"):
                item = {"replaces": known.get("replaces", known.get("url")), **item}  # noqa: PLW2901
            forked.append(item)
        if forked != cloned(merged, name):
            merged = merge(merged, {"components": {name: {"source": {"configure_time": forked}}}})
    return merged


def _below(path: Path, parent: str) -> Path:
    """Return the file of the recipe that another one extends."""
    beside = path.parent / f"{parent}{_SUFFIX}"
    if beside.is_file() and beside != path:
        return beside
    itself = _cannot_extend(path, f"it extends itself: '{parent}' is this file")
    try:
        below = find(parent, besides=path)
    except RecipeError as error:
        if path.stem in (parent, line_of(parent)):
            raise itself from error
        error.what = f"the recipe {path} extends '{parent}': {error.what}"
        raise
    if below.resolve() == path.resolve():
        raise itself
    return below


def _cannot_extend(
    path: Path, why: str, fix: str = "use one recipe that does not extend this one"
) -> RecipeError:
    return RecipeError(f"the recipe {path} extends something it cannot", why=why, fix=fix)


def _released(document: dict[str, Any], path: Path, name: str) -> dict[str, Any]:
    """Lay a patch release over its line where ``name`` is one that has no file of its own."""
    line = line_of(name)
    return document if line is None or line != path.stem else _patched(document, line, name)


def _patched(document: Mapping[str, Any], line: str, version: str) -> dict[str, Any]:
    """Lay what ``patches`` says about one release over the recipe of its line.

    Raises:
        RecipeError: the line has no such release, or says something about it that no patch can change.
    """
    # What the line says about its other patch releases is not about this one.
    over: dict[str, Any] = {"name": version, "release": version}
    if version != document.get("release"):
        patches = document.get("patches")
        changes = patches.get(version) if isinstance(patches, Mapping) else None
        if not isinstance(changes, Mapping):
            known = known_releases(document)
            raise RecipeError(
                f"recipe '{line}' has no release {version}",
                why=f"it has: {', '.join(known)}" if known else "it has no other releases",
                fix="use one of these, or write your own recipe that extends it",
                commands=(f"xpubuild recipes show {line}", "xpubuild recipes list"),
            )
        wrong = next((key for key in _FIXED if key in changes), None)
        if wrong is not None:
            raise RecipeError(
                f"recipe '{line}' changes '{wrong}' for its release {version}",
                why=f"a patch release can change everything except {', '.join(_FIXED)}",
                fix=f"remove patches.{version}.{wrong}",
            )
        over = {**changes, **over, "patches": None}
    return carried(document, over, merge(document, over), same_author=True)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one document over another: mappings merge, null removes, everything else replaces."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merge(result[key], value)
        else:
            result[key] = value
    return result


def requirement_file(loaded: LoadedRecipe, name: str) -> Path:
    """Return the hashed requirement file that a recipe names.

    Raises:
        RecipeError: it is not beside the recipe nor beside those it extends.
    """
    folders = dict.fromkeys((*loaded.folders, recipes_dir()))
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise RecipeError(
        f"recipe '{loaded.recipe.name}' uses the requirement file '{name}', which was not found",
        why="looked in " + ", ".join(str(folder) for folder in folders),
        fix="put the file next to the recipe, or fix its name",
    )


def _key(item: ErrorDetails) -> str:
    return ".".join(ascii(part)[1:-1] if isinstance(part, str) else str(part) for part in item["loc"])


def _wording(item: ErrorDetails) -> str:
    if item["type"] == _UNKNOWN:
        schema = Recipe.model_json_schema()
        keys = {key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", ())}
        return f"unknown key{did_you_mean(str(item['loc'][-1]), keys)}"
    known = {"string_type": "must be text; put it in quotes", "missing": "missing"}
    return known.get(item["type"], item["msg"].removeprefix("Value error, "))
