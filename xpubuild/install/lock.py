"""Makes the lock of a prepared plan, from the facts: no credentials, no paths of one machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from packaging.utils import canonicalize_name
from typing_extensions import TypedDict

from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import RecipeError, UsageError
from xpubuild.install.inputs import Repository, embedded, inputs_of, trees
from xpubuild.install.inputs import Tree as Found
from xpubuild.install.lock_file import Archive, Difference, Lock, Tree, clean_url, validated
from xpubuild.install.options import Policy
from xpubuild.install.planner import inputs
from xpubuild.install.resolve import git_store
from xpubuild.install.target import Prepared, Target
from xpubuild.supply import archives
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.failures import require
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.pin import repository_name
from xpubuild.supply.requirements import hashed_pins, require_hashes

_UNKNOWN = "unknown"
_REDACT = Redactor()


def make_lock(prepared: Prepared, *, report: Report, cancel: Cancel | None = None) -> Lock:
    """Return the complete lock of a plan; its repositories are fetched into the user's cache.

    Raises:
        UsageError: the plan builds a user's own edits, which no commit contains.
        RecipeError: something cannot be pinned; the message names it.
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target, cancel = prepared.target, Cancel() if cancel is None else cancel
    if target.dirty:
        what = f"a lock cannot include local changes in {', '.join(target.dirty)}"
        fix = "commit them to a repository, pin that commit in your own recipe, and lock that recipe"
        raise UsageError(what, why="they are not committed, so nobody else can build them", fix=fix)
    found, store = inputs_of(target), git_store(target, cancel=cancel)
    repositories = {item.component: _fetched(item, store, target, report) for item in found.repositories}
    repositories |= {item.component: _embedded(item, store, target) for item in found.embedded}
    return lock_of(prepared, repositories, dict(_archives(target, report, cancel)))


def lock_of(prepared: Prepared, repositories: Mapping[str, Tree], unpacked: Mapping[str, Archive]) -> Lock:
    """Return the lock from facts that are already known; nothing is fetched.

    Raises:
        RecipeError: a requirement file is not one of exact pins with hashes, or a value is invalid in a lock.
    """
    target, found = prepared.target, inputs_of(prepared.target)
    document = {
        "recipe": recipe_of(target),
        "plan": prepared.plan.lock_digest,
        "options": {
            **{key: getattr(target, key) for key in ("variant", "arch", "cxx11_abi", "components")},
            "target": target.device,
            "packages": "venv" if target.conda_lock is None else "conda",
            "python": ".".join(target.python_version.split(".")[:2]),
        },
        "repositories": {name: tree.model_dump() for name, tree in repositories.items()},
        "requirements": {one.name: requirement_file(one.text) for one in found.requirements},
        "conda": None if target.conda_lock is None else _conda(target.conda_lock),
        "archives": {name: item.model_dump() for name, item in unpacked.items()},
        "machine": _machine(target),
    }
    try:
        return validated(_clean(document))
    except ValueError as error:
        why = str(error)
        fix = "correct this value in the recipe or in the files that it references"
        raise RecipeError(f"recipe '{target.recipe.name}' cannot be locked", why=why, fix=fix) from error


def recipe_of(target: Target) -> dict[str, Any]:
    """Return the parts of the recipe that the options select, in the form of a lock."""
    selected: dict[str, Any] = _clean(inputs(target)["recipe"])
    return selected


def _clean(value: Any, name: str = "") -> Any:
    """Return what a lock may contain: no credentials, no values of secret variables, only valid text."""
    if isinstance(value, str) and name != "patch":
        return clean_url(value if name == "url" else _REDACT.environment({name: value})[name])
    if isinstance(value, Mapping):
        return {clean_url(key): _clean(item, key) for key, item in value.items()}
    return [_clean(item, name) for item in value] if isinstance(value, (list, tuple)) else value


# --- repositories, archives, wheels and packages ---------------------------------------------------------


def _fetched(item: Repository, store: RepositoryStore, target: Target, report: Report) -> Tree:
    """Return what a component is built from; parts that are not in the cache are fetched."""
    top, *cloned = trees(item, store, report)
    known: dict[str, Tree] = {}
    for one in cloned:
        asked, url = one.asked, clean_url(one.url)
        if asked is None or asked.asked_for is None or one.pin is None:
            what = f"the lock of {item.component} would be incomplete: {url} is cloned at an unknown commit"
            why = one.note.replace(one.url, url) or "neither the tree nor the recipe has a commit or tag"
            fix = "set 'commit' or 'ref' in that entry of configure_time in your own recipe"
            raise RecipeError(what, why=why, fix=fix)
        known[asked.path or url] = _tree(store, one, asked.asked_for, target)
    return _tree(store, top, item.pin.ref, target).model_copy(update={"configure_time": known})


def _tree(store: RepositoryStore, found: Found, ref: str | None, target: Target) -> Tree:
    nodes: dict[str, Tree] = {}
    for node in found.nodes:
        git_dir = store.mirror(node.url, node.commit).path
        answer = store.git.query(["rev-parse", "--verify", f"{node.commit}^{{tree}}"], git_dir=git_dir)
        tree = require(answer, f"reading the tree of commit {node.commit}")
        nodes[node.path] = Tree(url=clean_url(node.url), commit=node.commit, tree=tree)
    top = nodes.pop("")
    more: dict[str, Any] = {"ref": ref, "submodules": dict(sorted(nodes.items()))}
    if (made := target.patched.get(top.commit)) is not None:
        sha256 = hashlib.sha256(made.patch.encode("utf-8", "surrogateescape")).hexdigest()
        more |= {"base": made.base, "patch": made.patch, "patch_sha256": sha256}
    return top.model_copy(update=more)


def _embedded(item: Repository, store: RepositoryStore, target: Target) -> Tree:
    """Return the same for sources that are included in xpubuild; no files are kept."""
    with scratch_folder("lock") as folder:
        pin = replace(item.pin, url=embedded(folder, item.pin.commit).url)
        here = replace(store, cache=folder / "cache", stocks=())
        found = _fetched(replace(item, pin=pin), here, target, lambda _: None)
    below = {
        path: tree.model_copy(update={"url": embedded_url(tree.url)})
        for path, tree in found.submodules.items()
    }
    return found.model_copy(update={"url": embedded_url(found.url), "submodules": below})


def embedded_url(url: str) -> str:
    """Return the name of an embedded repository, whatever folder it was written to."""
    return f"embedded://{repository_name(url)}"


def _archives(target: Target, report: Report, cancel: Cancel) -> Iterator[tuple[str, Archive]]:
    """Yield the archives of a plan; what neither mirror nor cache have is downloaded into the cache."""
    downloads = target.downloads
    supply = archives.Supply(target.cache / "archives", downloads.mirror, downloads.offline, cancel)
    every = inputs_of(target)
    for component, name in every.unknown:
        what = f"the lock of {component} would be incomplete: its build downloads {name} from an unknown URL"
        fix = f"set components.{component}.build.archives.{name}.url in your own recipe"
        raise RecipeError(what, why="the recipe does not have it", fix=fix)
    for item in every.archives:
        kept = archives.bring(item, supply, report)
        yield item.name, Archive(
            url=clean_url(item.url), sha256=kept.sha256, size=kept.size,
            hash_from="upstream" if item.sha256 else "first download",
        )  # fmt: skip


def requirement_file(text: str) -> dict[str, Any]:
    """Return a hashed requirement file as a lock has it.

    Raises:
        RecipeError: a line is no exact pin, or has no hash.
    """
    pins = hashed_pins(text)
    require_hashes(pins)
    found = {
        canonicalize_name(pin.name) + (f"; {pin.marker}" if pin.marker else ""): {
            "version": pin.version,
            "hashes": [f"sha256:{sha256}" for sha256 in sorted(pin.hashes)],
        }
        for pin in pins
    }
    return {"sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(), "pins": found}


def _conda(text: str) -> dict[str, dict[str, Any]]:
    """Return the packages of a conda-lock.yml; URLs without the host, which depends on the site."""
    return {
        item.name: {
            "version": item.version,
            "file": "/".join(item.url.split("/")[-3:]),
            "hashes": [f"md5:{item.md5}", f"sha256:{item.sha256}"],
        }
        for item in read_lock(text).packages
    }


# --- the machine -----------------------------------------------------------------------------------------


def _machine(target: Target) -> dict[str, Any]:
    system, found = target.host.get("os", {}), target.host.get("drivers", ())
    machine: dict[str, Any] = {
        "architecture": str(system.get("machine", _UNKNOWN)),
        "glibc": str(system.get("libc", _UNKNOWN)).removeprefix("glibc "),
        "python": target.python_version,
        "compilers": dict(target.compilers.key),
    }
    if target.device == "xpu":
        streams = {item["family"] for item in found} - {"kernel", _UNKNOWN}
        machine["driver_family"] = streams.pop() if len(streams) == 1 else None
        machine["drivers"] = {item["package"]: item["version"] for item in found}
    if target.oneapi is not None:
        machine["oneapi"] = {str(one["name"]): str(one["version"]) for one in target.oneapi.components}
        if target.oneapi.compiler_version and "compiler" in machine["oneapi"]:
            # The version that the compiler reports: the name of its folder is shorter.
            machine["oneapi"]["compiler"] = target.oneapi.compiler_version
    return machine


# --- documents -------------------------------------------------------------------------------------------


class LockDocument(TypedDict):
    """What lock wrote, and how it differs from the file that was there before."""

    schema: Literal["xpubuild.written-lock/1"]
    """Name and version."""
    recipe: str
    file: str
    """Where the lock was written."""
    lock: str
    """Digest of every input but the machine."""
    repositories: int
    """Repositories in it, submodules and configure-time ones included."""
    archives: int
    """Archives in it that builds would download themselves."""
    pins: int
    """Python requirements in it."""
    changed: bool
    """Whether the file was not there, or is another one now."""
    differences: list[Difference]
    """To the lock that was there before."""


class VerifyLockDocument(TypedDict):
    """A lock compared with its recipe, the sources and this machine."""

    schema: Literal["xpubuild.verify-lock/1"]
    """Name and version."""
    status: Literal["ok", "differs"]
    recipe: str
    lock: str
    """Digest of every input but the machine."""
    policy: Policy
    """How the machine was compared."""
    differences: list[Difference]
