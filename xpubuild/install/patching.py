"""The recipe with its patches made: what it pins from here on are the patched trees."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from xpubuild.errors import RecipeError, SourceIntegrityError
from xpubuild.install.source_steps import configured
from xpubuild.install.target import Target
from xpubuild.recipe.constraints import patched_line
from xpubuild.recipe.limits import Change
from xpubuild.recipe.model import ConfigureTime, GitSource, LoadedRecipe
from xpubuild.resources import docs_page
from xpubuild.supply.git import patches
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.serving import ConfigurePin, configure_time_pins, named_commit
from xpubuild.untrusted import UntrustedError, read_bytes


def patch_file(loaded: LoadedRecipe, change: Change) -> Path | None:
    """Return the file of a change, beside the recipe or one that it extends; None where there is none."""
    places = (folder / change.file for folder in loaded.folders if change.file is not None)
    return next((path for path in places if path.is_file()), None)


def with_patches(target: Target, store: RepositoryStore) -> Target:
    """Return the target whose recipe pins the patched commits, which are made in the store.

    A tree with the user's edits is left as it is.

    Raises:
        RecipeError: a patch file or the tree that it is for is not there.
        SourceIntegrityError: a patch does not apply, or its file has another hash.
        FetchError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    line = patched_line(target.recipe) if target.device == "xpu" else None
    components, made = dict(target.recipe.components), dict[str, patches.Patched]()
    for name in target.components:
        source = target.pinned(name)
        if source is None or source.url is None or source.commit is None or name in target.dirty:
            continue
        of_line = [item for item in line.patches if item.component == name] if line is not None else []
        changes = [*source.patches, *of_line]
        if changes or any(item.replaces for item in configured(target, name)):
            source, done = _Work(target, store, name).make(source, changes)
            components[name] = components[name].model_copy(update={"source": source})
            made |= {item.commit: item for item in done}
    if not made:
        return target
    recipe = target.recipe.model_copy(update={"components": components})
    return replace(target, loaded=target.loaded.model_copy(update={"recipe": recipe}), patched=made)


class _Work:
    def __init__(self, target: Target, store: RepositoryStore, name: str) -> None:
        self._target, self._store, self._name = target, store, name

    def make(self, source: GitSource, changes: Sequence[Change]) -> tuple[GitSource, list[patches.Patched]]:
        """Patch what the build clones first: its pin file, a part of the tree, has to name what is made."""
        edits: dict[str, tuple[str, str]] = {}
        cloned, made, report = [], [], self._target.options.report
        pin = Pin(url=source.url or "", commit=source.commit or "", tree=source.tree, ref=source.ref)
        unknown = {change.into for change in changes} - {"", *(one.path for one in source.configure_time)}
        if unknown:
            raise self._error(f"'{unknown.pop()}' is no path of its configure_time")
        for item in source.configure_time:
            own = [change for change in changes if change.into and change.into == item.path]
            if own or (item.replaces and item in configured(self._target, self._name)):
                below, asked = self._pin_of(item, pin)
                if asked != below.commit:
                    edits[item.pin_file or ""] = (asked, below.commit)
            if own:
                done = self._patched(below, own, {})
                edits[item.pin_file or ""] = (asked, done.commit)
                made.append(done)
                item = item.model_copy(update={"commit": done.commit, "ref": None})  # noqa: PLW2901
            cloned.append(item)
        if not changes and not edits:
            return source, []
        done = self._patched(pin, [change for change in changes if not change.into], edits)
        report(f"{self._name} is patched: {len(changes)} changes, tree {done.tree}")
        new = {"commit": done.commit, "tree": done.tree, "configure_time": cloned}
        return source.model_copy(update=new), [*made, done]

    def _patched(
        self, pin: Pin, changes: Sequence[Change], edits: dict[str, tuple[str, str]]
    ) -> patches.Patched:
        options = self._target.options
        texts, locked = list(self._texts(changes)), options.patches.get(pin.commit)
        return patches.patched(self._store, pin, texts, edits=edits, locked=locked, report=options.report)

    def _pin_of(self, item: ConfigureTime, pin: Pin) -> tuple[Pin, str]:
        """Return the pin of what the build clones, and the word in the pin file that it follows."""
        mirror = self._store.mirror(pin.url, pin.commit)
        mirror.ensure(pin.commit, report=self._target.options.report)
        (asked,) = configure_time_pins(self._store.git, mirror.path, pin.commit, [item])
        if item.pin_file is None or asked.asked_for is None:
            raise self._error(f"the tree does not say in a pin file which commit of {item.url} is cloned")
        at: ConfigureTime | ConfigurePin = item if item.replaces and (item.commit or item.ref) else asked
        commit = at.commit or named_commit(self._store, at.url, at.ref or "")
        return Pin(url=at.url, commit=commit, ref=at.ref), asked.asked_for

    def _texts(self, changes: Sequence[Change]) -> Iterator[patches.Change]:
        for change in changes:
            if change.file is None:
                if change.commit is None:
                    raise self._error(f"the commit of '{change.what}' is not known")
                what = f"{change.action} of {change.commit[:12]}"
                yield patches.Change(what, commit=change.commit, revert=change.action == "revert")
                continue
            place = patch_file(self._target.loaded, change)
            if place is None:
                raise self._error(f"the patch file '{change.file}' is not beside the recipe")
            try:
                text = read_bytes(place)
            except UntrustedError as error:
                raise self._error(f"the patch file {place} cannot be used: {error}") from error
            if (found := hashlib.sha256(text).hexdigest()) != change.sha256:
                what = f"the patch file {place} is not the one that the recipe names"
                why = f"its sha256 is {found}, the recipe has {change.sha256}"
                fix = "restore the file, or write its hash into the recipe"
                raise SourceIntegrityError(what, why=why, fix=fix)
            yield patches.Change(change.file, text)

    def _error(self, why: str) -> RecipeError:
        what = f"component '{self._name}' of recipe '{self._target.recipe.name}' cannot be patched"
        fix = f"correct the patches in the recipe; {docs_page('reference/recipe.md')} lists their keys"
        return RecipeError(what, why=why, fix=fix)
