"""Makes the lock of a prepared plan, from the facts: no credentials, no paths of one machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import ValidationError

from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import RecipeError, SourceIntegrityError, UsageError
from xpubuild.install import lock_model as model
from xpubuild.install.inputs import Archive, OpenWheel, Repository, Tree, inputs_of, trees
from xpubuild.install.lock_file import clean_text, clean_url, problem_of
from xpubuild.install.planner import inputs
from xpubuild.install.resolve import git_store
from xpubuild.install.target import Prepared, Target
from xpubuild.resources import ops_project_dir
from xpubuild.safe_yaml import read_yaml
from xpubuild.supply import archives
from xpubuild.supply.depot.folder import Depot, archives_in
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.embedded import materialise
from xpubuild.supply.git.git import Git, Report
from xpubuild.supply.git.pin import repository_name
from xpubuild.supply.git.submodules import read_links
from xpubuild.supply.requirements import HashedPin, hashed_pins
from xpubuild.supply.uv.settings import Asker, Prebuilt, find_uv

_UNKNOWN = "unknown"
_SHORT = 12
_REDACT = Redactor()


def make_lock(prepared: Prepared, *, report: Report, cancel: Cancel | None = None) -> model.Lock:
    """Return the complete lock of a plan; its repositories are fetched into the user's own.

    Raises:
        UsageError: the plan builds a user's own edits, which no commit holds.
        RecipeError: something cannot be pinned; the message names it.
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target, cancel = prepared.target, cancel or Cancel()
    if target.dirty:
        raise UsageError(
            f"a lock cannot include local changes in {', '.join(target.dirty)}",
            why="they are not committed, so nobody else can build them",
            fix="commit them to a repository, pin that commit in your own recipe, and lock that recipe",
        )
    found, store = inputs_of(target), git_store(target, cancel=cancel)
    wheels = dict(_open_wheels(found.wheels, target, report, cancel))
    repositories = {item.component: _fetched(item, store, report) for item in found.repositories}
    repositories |= {item.component: _embedded(item, target) for item in found.embedded}
    return lock_of(prepared, repositories, list(_archives(found.archives, target, report, cancel)), wheels)


def lock_of(
    prepared: Prepared,
    repositories: Mapping[str, model.Repository],
    unpacked: Iterable[model.Archive],
    wheels: Mapping[str, tuple[str, ...]],
) -> model.Lock:
    """Return the lock with what is known already: nothing is fetched. ``wheels`` are hashes of open ones.

    Raises:
        RecipeError: a requirement file is not one of exact pins with hashes, or a value has no place in it.
    """
    target, found, said = prepared.target, inputs_of(prepared.target), inputs(prepared.target)
    try:
        return model.Lock(
            recipe=_recipe(target.recipe.name, said["recipe"]),
            plan=prepared.plan.lock_digest,
            options=model.Options(
                target=target.device,
                variant=target.variant,
                arch=target.arch,
                cxx11_abi=1 if target.cxx11_abi else 0,
                components=target.components,
                env="venv" if target.conda_lock is None else "conda",
                python=model.PythonChoice(
                    version=".".join(target.python_version.split(".")[:2]), range=target.recipe.needs.python
                ),
                flags={name: _clean(flags) for name, flags in target.switches.items()},
            ),
            repositories=dict(repositories),
            python=model.Python(
                requirements={one.name: _requirement_file(one.name, one.text) for one in found.requirements},
                wheels=tuple(
                    model.Wheel(
                        component=item.component, dist=item.dist, version=item.version,
                        hashes=wheels.get(item.component),
                    )
                    for item in sorted(found.wheels, key=lambda item: item.component)
                ),
            ),
            conda=None if target.conda_lock is None else _conda(read_yaml(target.conda_lock)),
            archives=tuple(sorted(unpacked, key=lambda item: item.key)),
            machine=_machine(target),
        )  # fmt: skip
    except ValidationError as error:
        raise RecipeError(
            f"recipe '{target.recipe.name}' cannot be locked",
            why=problem_of(error),
            fix="correct this value in the recipe or in the files that it references",
        ) from error


def _recipe(name: str, says: Mapping[str, Any]) -> model.RecipePart:
    """Return the digest of what a recipe says, and short ones of its sections, some of them part by part."""
    parts: dict[str, Any] = {}
    for section, value in says.items():
        if section in ("components", "variants"):
            parts |= {f"{section}.{key}": item for key, item in value.items()}
        elif section not in ("schema", "name"):
            parts[section] = value
    short = {section: digest(value)[:_SHORT] for section, value in parts.items()}
    return model.RecipePart(name=name, digest=digest(says), parts=short)


def _clean(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables without the values of those that have the name of a secret."""
    return {clean_text(name): clean_text(value) for name, value in _REDACT.environment(variables).items()}


# --- repositories, archives, wheels and packages ---------------------------------------------------------


def _fetched(item: Repository, store: RepositoryStore, report: Report) -> model.Repository:
    """Return what a component is built from; what the user's mirrors lack of it is fetched."""
    top, *cloned = trees(item, store, report)
    tree, below = _tree(store, top)
    configure_time = [_configure_time(item.component, one, store) for one in cloned]
    return model.Repository(
        url=clean_url(item.pin.url),
        ref=item.pin.ref,
        commit=item.pin.commit,
        tree=tree,
        submodules=below,
        configure_time=tuple(sorted(configure_time, key=lambda one: one.key)),
    )


def _configure_time(component: str, found: Tree, store: RepositoryStore) -> model.ConfigureTime:
    asked = found.asked
    if asked is None or asked.asked_for is None or found.pin is None:
        url = clean_url(found.url)
        raise RecipeError(
            f"the lock of {component} would be incomplete: {url} is cloned at an unknown commit",
            why=found.note.replace(found.url, url) or "neither the tree nor the recipe has a commit or tag",
            fix="set 'commit' or 'ref' in that entry of configure_time in your own recipe",
            evidence={"component": component, "url": url},
        )
    tree, below = _tree(store, found)
    return model.ConfigureTime(
        url=clean_url(found.url), path=asked.path, asked_for=asked.asked_for, commit=found.pin.commit,
        tree=tree, submodules=below,
    )  # fmt: skip


def _tree(store: RepositoryStore, found: Tree) -> tuple[str, tuple[model.Submodule, ...]]:
    """Return the tree of a pin and its submodules at every depth."""
    top, *rest = [
        (node, _tree_id(store.git, store.mirror(node.url, node.commit).path, node.commit))
        for node in found.nodes
    ]
    below = [_submodule(node.path, clean_url(node.url), node.commit, tree) for node, tree in rest]
    return top[1], _ordered(below)


def _embedded(item: Repository, target: Target) -> model.Repository:
    """Return the same for sources that are included in xpubuild; no files are kept."""
    source, git = target.component(item.component).source, Git.open(base_environment())
    with scratch_folder("lock") as folder:
        made = materialise(ops_project_dir(), folder, env=base_environment())
        if made.commit != item.pin.commit:
            raise SourceIntegrityError(
                f"the embedded sources are at commit {made.commit}, but the recipe pins {item.pin.commit}",
                why="the recipe is for another version of xpubuild, or an embedded file was changed",
                fix="reinstall xpubuild, or pin that commit in the recipe",
            )
        below = _ordered(_embedded_below(git, folder, made.root_url, made.commit, ""))
    return model.Repository(
        embedded=source.embedded if source is not None else None, ref=item.pin.ref, commit=made.commit,
        tree=made.tree, submodules=below, configure_time=(),
    )  # fmt: skip


def _embedded_below(git: Git, folder: Path, url: str, commit: str, path: str) -> Iterator[model.Submodule]:
    for link in read_links(git, folder / f"{repository_name(url)}.git", commit, url):
        place = f"{path}/{link.path}".strip("/")
        tree = _tree_id(git, folder / f"{repository_name(link.url)}.git", link.commit)
        yield _submodule(place, embedded_url(link.url), link.commit, tree)
        yield from _embedded_below(git, folder, link.url, link.commit, place)


def embedded_url(url: str) -> str:
    """Return the name of an embedded repository, whatever folder it was written to."""
    return f"embedded://{repository_name(url)}"


def _submodule(path: str, url: str, commit: str, tree: str) -> model.Submodule:
    return model.Submodule(path=clean_text(path), url=url, commit=commit, tree=tree)


def _ordered(found: Iterable[model.Submodule]) -> tuple[model.Submodule, ...]:
    return tuple(sorted(found, key=lambda item: item.path))


def _tree_id(git: Git, git_dir: Path, commit: str) -> str:
    answer = git.query(["rev-parse", "--verify", f"{commit}^{{tree}}"], git_dir=git_dir)
    if not answer.ok:
        raise SourceIntegrityError(
            f"the tree of commit {commit} cannot be read",
            why=answer.stderr.strip(),
            fix="run the same command again; damaged files are fetched again",
            evidence={"repository": str(git_dir), "commit": commit},
        )
    return answer.text


def _archives(
    wanted: Iterable[Archive], target: Target, report: Report, cancel: Cancel
) -> Iterator[model.Archive]:
    """Yield the archives of a plan; what neither mirror nor cache have is downloaded into the cache."""
    downloads = target.downloads
    supply = archives.Supply(
        target.cache / "archives", archives_in(downloads.mirror), downloads.offline, cancel
    )
    for item in wanted:
        if item.url is None:
            raise RecipeError(
                f"the lock of {item.component} would be incomplete: its build downloads {item.name} from an"
                " unknown URL",
                why="the recipe does not have it",
                fix=f"set components.{item.component}.build.archives.{item.name}.url in your own recipe",
                evidence={"component": item.component, "archive": item.name},
            )
        held = archives.bring(archives.Archive(item.name, item.url, item.sha256), supply, report)
        yield locked_archive(item, held.sha256, held.size)


def locked_archive(item: Archive, sha256: str, size: int) -> model.Archive:
    """Return an archive of a plan as a lock has it."""
    source: Literal["upstream", "first download"] = "upstream" if item.sha256 else "first download"
    return model.Archive(
        component=item.component, name=item.name, url=clean_url(item.url or _UNKNOWN), sha256=sha256,
        size=size, hash_from=source,
    )  # fmt: skip


def _open_wheels(
    wheels: Iterable[OpenWheel], target: Target, report: Callable[[str], None], cancel: Cancel
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield component and the hashes of every file of its wheel's release: of the mirror, else of indexes."""
    downloads = target.downloads
    mirror = Depot.open(downloads.mirror) if downloads.mirror is not None else None
    for wheel in wheels:
        found = {f"sha256:{item}" for item in in_depot(mirror, wheel)}
        if not found and not downloads.offline and (uv := find_uv().path):
            asker = Asker(uv, target.python_version, base_environment(), cancel)
            found = set(asker.hashes(Prebuilt(wheel.dist, wheel.version, wheel.indexes)))
        if found:
            yield wheel.component, tuple(sorted(found))
        else:
            report(f"no hash of {wheel.dist} {wheel.version} was found; the lock leaves it open")


def in_depot(depot: Depot | None, wheel: OpenWheel) -> Iterable[str]:
    """Yield the sha256 of every file of a wheel that a mirror has; 1.0 is found as 1.0+xpu too, as by pip."""
    asked = SpecifierSet(f"=={wheel.version}")
    for entry in depot.files() if depot is not None else ():
        is_named = entry.kind == "wheel" and entry.dist == canonicalize_name(wheel.dist)
        if is_named and asked.contains(entry.version, prereleases=True):
            yield entry.sha256


def _requirement_file(name: str, text: str) -> model.RequirementFile:
    try:
        pins = [_pin(name, pin) for pin in hashed_pins(text)]
    except RecipeError as error:
        error.evidence = {**error.evidence, "file": name}
        error.what = error.what.replace("a requirements file", name)
        raise
    return model.RequirementFile(
        sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        pins=tuple(sorted(pins, key=lambda pin: pin.key)),
    )


def _pin(file: str, pin: HashedPin) -> model.Requirement:
    if not pin.written:
        raise RecipeError(
            f"{pin.name}=={pin.version} in {file} has no hash",
            why="a file is only used if its hash is known beforehand",
            fix="write it as name==version with --hash=sha256:… for each file",
        )
    return model.Requirement(
        name=canonicalize_name(pin.name), version=pin.version, marker=str(pin.marker) if pin.marker else None,
        hashes=tuple(sorted(pin.written)),
    )  # fmt: skip


def _conda(document: Mapping[str, Any], platform: str = "linux-64") -> model.Conda:
    """Return the packages of a conda-lock.yml (its version 1 form, as a mapping) for one platform."""
    entries = [item for item in document["package"] if item.get("platform", platform) == platform]
    return model.Conda(packages=tuple(sorted(map(_conda_package, entries), key=lambda item: item.key)))


def _conda_package(item: Mapping[str, Any]) -> model.CondaPackage:
    # The address ends in CHANNEL/SUBDIR/FILE; what comes before is the host, which may carry a token.
    address = str(item["url"]).partition("#")[0].rstrip("/").split("/")
    is_conda = item["manager"] == "conda"
    return model.CondaPackage(
        manager=item["manager"], name=item["name"], version=str(item["version"]),
        channel=address[-3] if is_conda else None, file="/".join(address[-2:]) if is_conda else address[-1],
        md5=item["hash"].get("md5"), sha256=item["hash"].get("sha256"),
    )  # fmt: skip


# --- the machine -----------------------------------------------------------------------------------------


def _machine(target: Target) -> model.Machine:
    system, found = target.host.get("os", {}), target.host.get("drivers", ())
    streams = {item["family"] for item in found} - {"kernel", _UNKNOWN}
    return model.Machine(
        architecture=str(system.get("machine", _UNKNOWN)),
        glibc=str(system.get("libc", _UNKNOWN)).removeprefix("glibc "),
        python=target.python_version,
        compilers={name: _compiler(text) for name, text in target.compilers.key.items()},
        drivers=model.Drivers(
            family=streams.pop() if len(streams) == 1 else None,
            packages={clean_text(item["package"]): clean_text(item["version"]) for item in found},
        )
        if target.device == "xpu"
        else None,
        oneapi=_oneapi(target),
    )


def _compiler(text: str) -> model.Compiler:
    """Return a compiler from what fingerprints have of it, ``KIND VERSION TARGET``."""
    kind, version, target = (*text.split(" ", 2), _UNKNOWN, _UNKNOWN)[:3]
    return model.Compiler(kind=kind, version=version, target=target)


def _oneapi(target: Target) -> model.Oneapi | None:
    """Return the oneAPI that is used, with words instead of the machine's places."""
    if target.oneapi is None:
        return None
    oneapi, places = target.oneapi, {str(Path.home()): "{home}", os.environ.get("HOME", ""): "{home}"}
    for item in oneapi.components:
        path = Path(str(item["path"]))
        # ROOT/compiler/2025.1 in the one layout, ROOT/2025.1 in the other.
        places[str(path.parent.parent if path.parent.name == item["name"] else path.parent)] = "{oneapi}"
    versions = {clean_text(item["name"]): clean_text(item["version"]) for item in oneapi.components}
    if oneapi.compiler_version and "compiler" in versions:
        # What the compiler itself says: the name of its folder is shorter.
        versions["compiler"] = oneapi.compiler_version
    ordered = sorted((folder for folder in places if len(folder) > 1), key=len, reverse=True)

    def clean(text: str) -> str:
        for folder in ordered:
            text = text.replace(folder, places[folder])
        return clean_text(text)

    difference = oneapi.difference
    values = _REDACT.environment(difference.get("set", {}))
    return model.Oneapi(
        components=versions,
        environment=model.Environment(
            set={clean_text(name): clean(value) for name, value in values.items()},
            unset=tuple(sorted(map(clean_text, difference.get("unset", ())))),
            paths={
                clean_text(name): {
                    kind: tuple(map(clean, change[kind])) for kind in ("prepend", "append", "remove")
                }
                for name, change in difference.get("paths", {}).items()
            },
        ),
    )
