"""The steps that fetch what is built: checkouts, and what a build would download or clone itself. Pure."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.model import XPUBUILD, Command, Step
from xpubuild.errors import RecipeError
from xpubuild.install.choose import needed_archives
from xpubuild.install.environment_steps import words
from xpubuild.install.target import Target
from xpubuild.recipe.model import Archive, ConfigureTime
from xpubuild.recipe.tree import RecipeTreeProof, expected
from xpubuild.resources import ops_project_dir
from xpubuild.supply.archives import LIST, UnpackedProof, file_name, unpacked_stamp
from xpubuild.supply.git.embedded import root_url, shell_lines
from xpubuild.supply.git.integrity import BuiltTreeProof, TreeProof
from xpubuild.supply.git.pin import Pin, ShellWord, portable_commands
from xpubuild.supply.git.serving import CONFIG, ServedProof
from xpubuild.supply.git.serving import LIST as SERVED
from xpubuild.supply.git.worktree import tree_stamp


def pin_of(target: Target, name: str) -> Pin:
    """Return the pin of a source component; embedded sources get the place they are made at.

    Raises:
        RecipeError: the recipe leaves the commit open.
    """
    source = target.pinned(name)
    if source is None or source.commit is None:
        what = f"component '{name}' of recipe '{target.recipe.name}' has no commit"
        why = "a build needs an exact pin"
        raise RecipeError(what, why=why, fix=f"set components.{name}.source.commit to the full commit id")
    return Pin(
        url=source.url or root_url(_folder(target, "embedded", str(source.embedded))),
        commit=source.commit,
        tree=source.tree,
        submodules=source.submodules,
        ref=source.ref,
        skip=tuple(source.skip_submodules),
    )


def _folder(target: Target, kind: str, name: str) -> Path:
    return target.layout.build / kind / name


def source_step(target: Target, name: str) -> Step:
    """Return the step that makes the pinned checkout of a component, or the copy of somebody's own."""
    if target.own(name) is not None:
        return _own_step(target, name)
    source, pin = target.component(name).source, pin_of(target, name)
    into, commands = target.layout.src / name, list[Command]()
    # What a checkout keeps beside its place: the lock, a half-made tree after a kill, and a damaged one.
    beside = (f".{name}.xpubuild-{what}" for what in ("lock", "new", "damaged"))
    outputs = [str(into), *(str(into.parent / item) for item in beside)]
    origin: ShellWord | None = None
    if source is not None and source.embedded is not None:
        folder = str(_folder(target, "embedded", source.embedded))
        # A path and no URL: the script may be run with another workspace, and a URL would be percent-encoded.
        origin = ShellWord(f'"$EMBEDDED"/{source.embedded}.git')
        outputs.append(folder)
        embed = (XPUBUILD, "plumbing", "embed", source.embedded, folder, "--commit", pin.commit)
        lines = (f"EMBEDDED={shlex.quote(folder)}", *shell_lines(ops_project_dir(), "EMBEDDED"))
        commands.append(Command(argv=embed, portable=lines))
    made = target.patched.get(pin.commit)
    if made is None:
        portable = portable_commands(pin, str(into), url=origin)
    else:
        portable = portable_commands(pin, str(into), base=made.base, patching=made.shell_lines)
    options = ["--cache", str(target.cache), *(("--tree", pin.tree) if pin.tree else ())]
    options += ["--ref", pin.ref] if pin.ref else []
    options += [] if pin.submodules else ["--no-submodules"]
    options += words("--skip-submodule", pin.skip)
    argv = (XPUBUILD, "plumbing", "checkout", pin.url, pin.commit, str(into), *options)
    commands.append(Command(argv=argv, tuning=target.downloads.environment(), portable=portable))
    dirty = target.dirty.get(name)
    return Step(
        id=f"{name}.source",
        title=f"check out {name} at {pin.commit[:12]}",
        commands=tuple(commands) if dirty is None else (),
        proofs=(TreeProof(str(into), pin), *_recipe_proofs(target, name)) if dirty is None else (),
        outputs=tuple(outputs), witnesses=(str(into / ".git"),), always_prove=dirty is None,
        relevant={"pin": pin.key(), "edits": dirty},
        guard_stamp=functools.partial(tree_stamp, into) if dirty is None else None,
    )  # fmt: skip


def _own_step(target: Target, name: str) -> Step:
    """Return the step for a tree of somebody's own: nothing is done where it is used in place."""
    into, own, digest = target.tree(name), target.own(name), target.dirty[name]
    source = target.component(name).source
    argv = (
        XPUBUILD, "plumbing", "copy-tree", str(own), str(into), "--digest", digest,
        *words("--item", cloned(target, name)),
        *words("--skip-submodule", source.skip_submodules if source else ()),
    )  # fmt: skip
    copying = ("rsync", "--archive", f"{own}/", f"{into}/")
    portable = (shlex.join(("mkdir", "-p", str(into))), shlex.join(copying))
    copied = into != own
    return Step(
        id=f"{name}.source",
        title=f"{'copy' if copied else 'use'} {own} as it is",
        commands=(Command(argv=argv, portable=portable),) if copied else (),
        outputs=(str(into.parent), str(into)) if copied else (),
        witnesses=(str(into / ".git"),),
        relevant={"own": str(own), "edits": digest},
    )


def pin_checked(target: Target, name: str) -> Pin | None:
    """Return the pin that a component's tree must be at to be built; None with edits on purpose."""
    return None if name in target.dirty else pin_of(target, name)


def against_folder(target: Target, name: str) -> Path | None:
    """Return the place of the copy that a component is built in, whose requirements on torch are answered.

    None where it is built in its tree; an editable install is of the tree itself.
    """
    asked = target.component(name).build.against is not None and not target.options.editable
    return target.layout.build / "against" / name if asked else None


def against_command(target: Target, name: str) -> tuple[Command, ...]:
    """Return the command that makes the copy."""
    into, build = against_folder(target, name), target.component(name).build
    if into is None:
        return ()
    argv = (
        XPUBUILD, "plumbing", "against", str(target.tree(name)), str(into), "--env", str(target.layout.env),
        "--folder", build.source_dir, *words("--file", build.against or ()),
    )  # fmt: skip
    text = f"a script cannot build {name} against the torch of its workspace; use xpubuild install"
    return (Command(argv=argv, portable=_refusing(text)),)


def _refusing(text: str) -> tuple[str, ...]:
    """Return what a script does in place of a command that it cannot do without xpubuild."""
    return (f"echo {shlex.quote(text)} >&2", "exit 1")


def built_tree_proof(target: Target, name: str) -> BuiltTreeProof:
    """Return the proof that a build left the tree as it was pinned."""
    return BuiltTreeProof(str(target.tree(name)), pin_checked(target, name), target.notes(name))


def _recipe_proofs(target: Target, name: str) -> tuple[RecipeTreeProof, ...]:
    """Return the proof that recipe and tree agree; none for sources that xpubuild carries itself."""
    source = target.component(name).source
    if source is None or source.url is None:
        return ()
    wanted = replace(expected(target.recipe, name), variables=tuple(sorted(target.switches[name])))
    if "triton" not in target.components:
        # A pin that this plan does not use must not stop it; recipes check reports it.
        wanted = replace(wanted, triton_commit=None, triton_version=None)
    return (RecipeTreeProof(str(target.layout.src / name), wanted),)


_FETCH_CONTENT, _TOOLCHAIN = "FETCHCONTENT_SOURCE_DIR_", "CMAKE_TOOLCHAIN_FILE"
_UNPACKED = ("url", "sha256", "folder")
_CLONED = ("url", "replaces", "path", "pin_file", "commit", "ref")
_DOWNLOAD = "import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])"


def _archives(target: Target, name: str) -> dict[str, Archive]:
    """Return the archives that are fetched; one without a URL is left to the build and the network."""
    return {key: item for key, item in needed_archives(target, name).items() if item.url is not None}


def unpacked_environment(target: Target, name: str) -> dict[str, str]:
    """Return the variables that pass the unpacked folders to a component's build."""
    files = handed_over(target, name)
    return {**_unpacked(target, name), **({_TOOLCHAIN: next(iter(files))} if files else {})}


def _unpacked(target: Target, name: str) -> dict[str, str]:
    place = _folder(target, "archives", name)
    return {item.variable: str(place / key / item.folder) for key, item in _archives(target, name).items()}


def handed_over(target: Target, name: str) -> dict[str, str]:
    """Return the file (path -> text) that tells CMake where what FetchContent would fetch is; empty for none.

    CMake takes no variable of its own from the environment but a toolchain file (CMAKE_TOOLCHAIN_FILE, since
    3.21), whatever build calls it; one of the recipe is read first.
    """
    places = {key: target.fill(value, name) for key, value in target.switches[name].items()}
    first = [f"include([==[{places[_TOOLCHAIN]}]==])"] if _TOOLCHAIN in places else []
    places |= _unpacked(target, name)
    lines = [
        f'set({key} [==[{places[key]}]==] CACHE PATH "" FORCE)'
        for key in sorted(places)
        if key.startswith(_FETCH_CONTENT)
    ]
    file = f"{_folder(target, 'cmake', name)}.cmake"
    return {file: "\n".join((*first, *lines, ""))} if lines else {}


def archives_step(target: Target, name: str) -> Step | None:
    """Return the step that fetches and unpacks archives; None where the build downloads none."""
    into, items = _folder(target, "archives", name), _archives(target, name)
    if not items:
        return None
    argv = (
        XPUBUILD, "plumbing", "archives", str(into), "--cache", str(target.cache / "archives"),
        *words("--item", [_as_json(items[key], _UNPACKED, name=key) for key in items]),
    )  # fmt: skip
    lines = _portable_archives(str(target.layout.python), into, items)
    return Step(
        id=f"{name}.archives",
        title=f"unpack archives that the build of {name} would download",
        commands=(Command(argv=argv, tuning=target.downloads.environment(), portable=tuple(lines)),),
        proofs=(UnpackedProof(str(into)),), outputs=(str(into),), fresh=(str(into),),
        witnesses=(str(into / LIST),), outputs_stamp=functools.partial(unpacked_stamp, into),
    )  # fmt: skip


def _as_json(item: Archive | ConfigureTime, keys: Iterable[str], **more: str) -> str:
    """Return these fields as an option of plumbing has them."""
    found = {**more, **{key: getattr(item, key) for key in keys}}
    return json.dumps({key: value for key, value in found.items() if value is not None})


def _portable_archives(python: str, into: Path, items: Mapping[str, Archive]) -> Iterator[str]:
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


def configured(target: Target, name: str) -> tuple[ConfigureTime, ...]:
    """Return the repositories that a component's build clones for this target, as the recipe has them.

    None where it is built with the user's edits: somebody who edits a pin file wants the build to follow it.
    """
    source = target.component(name).source
    if source is None or name in target.dirty:
        return ()
    return tuple(item for item in source.configure_time if item.when in ("always", target.device))


def cloned(target: Target, name: str) -> list[str]:
    """Return what a component's build clones into its tree, as options of plumbing have it."""
    source = target.component(name).source
    items = source.configure_time if source else ()
    return [_as_json(item, _CLONED) for item in items if item.path is not None]


def git_folder(target: Target, name: str) -> tuple[str, ...]:
    """Return the folder of the git that keeps a build from checking out again what somebody works in."""
    own = name in target.trees and cloned(target, name)
    return (str(_folder(target, "git", name)),) if own else ()


def own_options(target: Target, name: str) -> tuple[str, ...]:
    """Return the options of the command before a build that are about somebody's work in the tree."""
    notes = target.notes(name)
    if notes is not None:
        return ("--notes", str(notes))
    return words("--item", cloned(target, name) if name in target.dirty else ())


def git_files(target: Target) -> dict[str, str]:
    """Return the programs in these folders: path -> text."""
    return {
        f"{folder}/git": tree.shim(target.tree(name))
        for name, tree in target.trees.items()
        for folder in git_folder(target, name)
    }


def served_environment(target: Target, name: str) -> dict[str, str]:
    """Return what leads the git of a component's build to the repositories; nothing where it clones none."""
    if not configured(target, name):
        return {}
    return {"GIT_CONFIG_GLOBAL": str(_folder(target, "repositories", name) / CONFIG)}


def repositories_step(target: Target, name: str) -> Step:
    """Return the step that serves the repositories which the tree at ``commit`` asks for."""
    into, clones = _folder(target, "repositories", name), configured(target, name)
    argv = (
        XPUBUILD, "plumbing", "repositories", str(into), "--tree", str(target.layout.src / name),
        "--commit", pin_of(target, name).commit, "--cache", str(target.cache),
        *words("--item", [_as_json(item, _CLONED) for item in clones]),
    )  # fmt: skip
    # A script has the network: its build clones as upstream's own does, without patches.
    made = [item.url for item in clones if item.replaces or item.commit in target.patched]
    text = f"a script cannot give the build {', '.join(made)} to clone; use xpubuild install"
    portable = _refusing(text) if made else ()
    return Step(
        id=f"{name}.repositories", needs=(f"{name}.source",),
        title=f"fetch repositories that the build of {name} clones",
        commands=(Command(argv=argv, tuning=target.downloads.environment(), portable=portable),),
        proofs=(ServedProof(str(into)),), outputs=(str(into),), fresh=(str(into),), always_prove=True,
        witnesses=(str(into / SERVED), str(into / CONFIG)),
    )  # fmt: skip
