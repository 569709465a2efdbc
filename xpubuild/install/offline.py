"""What an install that uses a mirror will find there, or lack."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError
from xpubuild.install.fetch_packages import needs_of
from xpubuild.install.inputs import Inputs, inputs_of, trees, unknown_archives
from xpubuild.install.resolve import git_store
from xpubuild.install.target import Prepared
from xpubuild.supply.archives import Supply, require_here
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.depot.examine import require_sound
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.index.pip_download import Need
from xpubuild.supply.index.pipconf import local_path, pip_settings


def take_stock(
    prepared: Prepared, done: Collection[str], *, report: Callable[[str], None], cancel: Cancel
) -> None:
    """Verify that what the steps other than ``done`` download is present, as far as it must be.

    With a mirror, every byte of it that this recipe can use is compared with its index. Offline, all
    repositories are fetched into the user's cache, each object hashed, and all packages are looked up.

    Raises:
        FetchError: offline, the first thing that is missing.
        SourceIntegrityError: the mirror is damaged; everything damaged is named.
        RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    downloads = prepared.target.downloads
    inputs, conda = _still_needed(prepared, done)
    if not (inputs.repositories or inputs.requirements or inputs.archives or inputs.unknown or conda):
        return
    if downloads.mirror is not None:
        mirror = Depot.open(downloads.mirror)
        report(f"checking the mirror {mirror.path}")
        sets = mirror.index().of(prepared.plan.recipe)
        # Everything, if the mirror has no record of a fetch of this recipe.
        require_sound(mirror, {name for one in sets for name in one.needs} if sets else None)
    if downloads.offline:
        report("looking up all required files")
        require_all(prepared, done, cancel=cancel)


def require_all(prepared: Prepared, done: Collection[str], *, cancel: Cancel, fetch: bool = True) -> None:
    """Look up everything that the steps other than ``done`` download, offline.

    Without ``fetch`` nothing is copied from the mirror into the user's repositories, so these are looked
    up only if there is no mirror.

    Raises:
        FetchError: the first thing that is missing.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target, folder = prepared.target, prepared.target.downloads.mirror
    inputs, conda = _still_needed(prepared, done)
    packages = read_lock(conda).packages if conda is not None else ()
    try:
        if inputs.repositories and (fetch or folder is None):
            store = git_store(target, cancel=cancel)
            # git reports the progress of every small repository: nothing of it is printed.
            for tree in [tree for item in inputs.repositories for tree in trees(item, store, lambda _: None)]:
                if tree.pin is None:
                    raise _unknown(tree.url, tree.note, f"{tree.component}.source.configure_time")
        supply = Supply(target.cache / "conda", folder, offline=True, cancel=cancel)
        require_here((package.archive for package in packages), supply)
        files = [] if folder is None else Depot.open(folder).files()
        listed = _in_wheel_folders() if folder is None else [(one.name, one.sha256) for one in files]
        if listed is not None:
            needs = needs_of(inputs, [inputs.python_version])
            require_wheels(listed, (need for some in needs for need in some))
        supply = replace(supply, cache=target.cache / "archives")
        for note, (component, name) in zip(unknown_archives(inputs), inputs.unknown, strict=True):
            raise _unknown(f"the {name}", note, f"{component}.build.archives.{name}.url")
        require_here(inputs.archives, supply)
    except FetchError as error:
        if folder is None:
            fetched = "fill a mirror with xpubuild fetch where there is a network"
            error.fix = f"{fetched}, and pass it with --mirror; or remove --offline"
            error.commands = (f"xpubuild fetch {prepared.plan.recipe} --mirror DIR", *error.commands)
        raise


def _in_wheel_folders() -> list[tuple[str, str]] | None:
    """Return name and sha256 of the wheels in pip's find-links; None where a page of links has them."""
    places = map(local_path, pip_settings(base_environment()).get("find-links", "").split())
    every = [path for place in places if place is not None for path in (place, *place.glob("*"))]
    if any(path.suffix.startswith(".htm") for path in every):
        return None
    return [(path.name, file_sha256(path)) for path in every if path.suffix == ".whl" and path.is_file()]


def require_wheels(files: Sequence[tuple[str, str]], needs: Iterable[Need]) -> None:
    """Look for a wheel of each need among files: name and sha256.

    Raises:
        FetchError: there is none; the message names the first need.
    """
    for need in needs:
        if not any(need.met_by(*file) for file in files):
            what = f"{need.name} is missing, and the run is offline"
            why = "no mirror or wheel folder has a wheel of it for this Python with a hash of the recipe"
            fix = "fetch the recipe on a machine with a network, and pass that mirror with --mirror"
            raise FetchError(what, why=why, fix=fix, evidence={"reason": "offline"})


def _unknown(what: str, note: str, key: str) -> FetchError:
    return FetchError(
        f"{what} cannot be in a mirror",
        why=note,
        fix=f"write a recipe that extends this one and sets components.{key}, then fetch again",
        evidence={"reason": "offline", "what": what},
    )


def _still_needed(prepared: Prepared, done: Collection[str]) -> tuple[Inputs, str | None]:
    """Return the inputs of the steps that will run, and the conda lock if the environment is to be made."""
    target, whole = prepared.target, inputs_of(prepared.target)
    todo = {step.id: step for step in prepared.plan.steps if step.id not in done}
    read = {path for step in todo.values() for path in step.inputs}

    fetched, unpacked = (
        {name for name in target.components if not todo.keys().isdisjoint(f"{name}.{step}" for step in steps)}
        for steps in (("source", "repositories"), ("archives", "wheel", "install"))
    )
    needed = replace(
        whole,
        repositories=tuple(i for i in whole.repositories if i.component in fetched),
        requirements=tuple(i for i in whole.requirements if str(target.requirement_path(i.name)) in read),
        archives=tuple(i for i in whole.archives if i.name.partition(".")[0] in unpacked),
        unknown=tuple(i for i in whole.unknown if i[0] in unpacked),
    )
    return needed, target.conda_lock if "env" in todo else None
