"""The stores of built wheels that an install uses, and what they know of its plan."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import platformdirs
from packaging.utils import canonicalize_name

from xpubuild import __version__
from xpubuild.artifacts.configure import look
from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import (
    AuditError,
    FetchError,
    SourceIntegrityError,
    ToolchainError,
    UsageError,
    XpuBuildError,
)
from xpubuild.install.build_steps import source_folder
from xpubuild.install.target import Prepared, Target
from xpubuild.supply.depot.build_reads import Reads, build_reads, unlike
from xpubuild.supply.depot.keeping import Store, WheelKeeper, look_up
from xpubuild.supply.depot.kept_wheels import NOT_A_FOLDER, NOT_THERE, FolderStore
from xpubuild.supply.depot.location import Location, Trust, trust_from
from xpubuild.supply.depot.machine import Contents, Toolchain, machine_inputs, search_places, system_inputs
from xpubuild.supply.depot.record import Record, build_inputs, identity

#: A store that does not answer within this time is not waited for.
_SECONDS = 10.0
_COMMAND = ("argv", "started", "duration_s", "user_s", "system_s", "max_rss_bytes", "peak_bytes")


def own_store(trust: Trust) -> FolderStore:
    """Return the user's own store: the cache, in which repositories are kept too."""
    return FolderStore(platformdirs.user_cache_path("xpubuild"), trust, own=True)


def stores_of(places: Iterable[Path | Location], *, offline: bool) -> tuple[Store, ...]:
    """Return the user's own store and those of the options; a server is not asked offline.

    Raises:
        UsageError: an account that the configuration trusts does not exist.
    """
    trust = trust_from(os.environ)
    found: list[Store] = [own_store(trust)]
    for place in places:
        if isinstance(place, Path):
            found.append(FolderStore(place, trust))
        elif not offline:
            from xpubuild.supply.depot.served import Served  # noqa: PLC0415 - requests, for few

            found.append(Served(place, trust))
    return tuple(found)


def read_only(asked: bool | None, environ: Mapping[str, str]) -> bool:
    """Whether no store is written: asked for, or a release or a change that nobody has reviewed yet in CI.

    Sources: the default environment variables of GitHub Actions, the predefined CI/CD variables of GitLab.
    """
    if asked is not None:
        return asked
    if environ.get("GITLAB_CI") and (environ.get("CI_MERGE_REQUEST_IID") or environ.get("CI_COMMIT_TAG")):
        return True
    unreviewed = environ.get("GITHUB_EVENT_NAME") in ("pull_request", "pull_request_target", "release")
    return unreviewed or environ.get("GITHUB_REF_TYPE") == "tag"


def with_stores(prepared: Prepared, done: Collection[str]) -> Prepared:
    """Return a plan whose builds know the stores; for the steps ``done`` they are not asked."""
    target, plan = prepared.target, prepared.plan
    builds = {f"{name}.wheel": name for name in target.components if target.component(name).kind == "source"}
    wanted = [step for step in plan.steps if step.id in builds and step.id not in done]
    options = target.options
    edits = options.editable or options.allow_dirty or options.source_dir
    if not wanted or not target.stores or edits:
        return prepared
    try:
        machine = (_toolchain(target), Contents(platformdirs.user_cache_path("xpubuild") / "answers"))
        here = machine_inputs(*machine)
        keepers = {step.id: _keeper(prepared, step, builds[step.id], machine, here) for step in wanted}
    except XpuBuildError:  # of tools without which nothing is built either
        return prepared
    every = tuple(replace(step, keeper=keepers.get(step.id, step.keeper)) for step in plan.steps)
    return replace(prepared, plan=replace(plan, steps=every))


def unanswered(plan: Plan) -> tuple[str, ...]:
    """Return which stores gave the builds of a plan no answer, and why, one line each."""
    keepers = (step.keeper for step in plan.steps)
    lines = (line for keeper in keepers if isinstance(keeper, WheelKeeper) for line in keeper.unanswered())
    return tuple(dict.fromkeys(lines))


def _keeper(
    prepared: Prepared, step: Step, name: str, machine: tuple[Toolchain, Contents], here: Mapping[str, Any]
) -> WheelKeeper:
    target, plan = prepared.target, prepared.plan
    dist, places = canonicalize_name(target.component(name).dist), places_of(target)

    def of(tools: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
        """Return what decides the build: the tools alone, or all of the system, which takes longer."""
        system = system_inputs(*machine) if whole else {}
        return build_inputs(plan, step.id, dist, {**tools, **system}, places)

    # A wheel of these tools is taken where all that its build read and looked for is here as it was there;
    # else one that was built with the same system.
    short = of(here)
    found = look_up(target.stores, dist, identity(short), _SECONDS)
    differs = "" if found.record is None else unlike(found.record, machine[1])
    inputs = short
    if found.record is None or differs:
        inputs = of(here, whole=True)
        found = look_up(target.stores, dist, identity(inputs), _SECONDS)
        if differs and found.record is None:
            found = replace(found, differs=f"what its build read or looked for: {differs}")

    @functools.cache
    def kept_as() -> tuple[Mapping[str, Any], Reads]:
        # What the store wants to know never fails a finished build.
        with contextlib.suppress(XpuBuildError, OSError):
            # One record has the name: where its wheel is of another system, this one is kept as of all.
            if not differs and (reads := _reads(target, name, *machine)) is not None:
                return short, reads
        with contextlib.suppress(XpuBuildError, OSError):
            return of(here, whole=True) if inputs is short else inputs, Reads({}, {})
        return inputs, Reads({}, {})

    def again() -> str:
        return identity(of(machine_inputs(*machine), whole=inputs is not short))

    def record(
        wheel: Path, evidence: Sequence[Mapping[str, Any]], commands: Sequence[Mapping[str, Any]]
    ) -> Record:
        audit = next((dict(item["audit"]) for item in evidence if isinstance(item.get("audit"), dict)), {})
        require_movable(audit, plan.workspace)
        own, reads = kept_as()
        built = {
            "xpubuild": __version__, "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "recipe": plan.recipe,
            "lock_digest": plan.lock_digest,
            "host": {field: target.host.get(field) for field in ("os", "cpu")},
        }  # fmt: skip
        return Record(
            identity(own), dist, file=wheel.name, sha256=file_sha256(wheel), size=wheel.stat().st_size,
            inputs=own, audit={**audit, "wheel": wheel.name},
            commands=tuple({field: item.get(field) for field in _COMMAND} for item in commands),
            read=reads.read, searched=reads.searched, built=built,
        )  # fmt: skip

    folders = () if read_only(target.options.store_read_only, os.environ) else target.stores
    writable = [item for item in folders if isinstance(item, FolderStore) and item.can_write()]
    return WheelKeeper(identity(inputs), found, writable, again, record, lambda: identity(kept_as()[0]))


def _reads(target: Target, name: str, tools: Toolchain, contents: Contents) -> Reads | None:
    """Return what a build read; None where that is not known, as of all that setuptools builds."""
    build, env = target.layout.build / name, target.layout.env
    if not look(Path(source_folder(target, name))).scikit:
        return None
    ninja = shutil.which("ninja", path=f"{env / 'bin'}{os.pathsep}{tools.search_path}")
    if ninja is None:
        return None
    places = search_places(tools, contents)
    return build_reads(build, [target.layout.root], places, ninja, tools.environment)


def _toolchain(target: Target) -> Toolchain:
    base, oneapi = base_environment(), target.oneapi
    return Toolchain(
        cc=target.compilers.cc, cxx=target.compilers.cxx, search_path=base["PATH"],
        environment=base if oneapi is None else oneapi.over(base),
        # That of conda is one of the packages which the lock names.
        python=target.python if target.conda_lock is None else "",
        oneapi={str(item["name"]): Path(str(item["path"])) for item in (oneapi.components if oneapi else ())},
        ocloc=oneapi is not None,
    )  # fmt: skip


def places_of(target: Target) -> dict[str, str]:
    """Return the paths that differ between users and machines, and the words that stand for them."""
    root, compilers = str(target.layout.root), target.compilers
    return {
        quote(root): "{workspace}", target.python: "{python}", compilers.cc: "{cc}", compilers.cxx: "{cxx}",
        str(target.cache): "{cache}", root: "{workspace}",
    }  # fmt: skip


def require_movable(audit: Mapping[str, Any], workspace: str) -> None:
    """Refuse a wheel that finds its libraries in the folder it was built in.

    Raises:
        AuditError: naming the library.
    """
    for item in audit.get("objects", ()):
        for entry in item["rpath"]:
            if f"{entry}/".startswith(f"{workspace}/"):
                why = f"its RPATH has {entry}"
                fix = "set the RPATH of the build to $ORIGIN"
                raise AuditError(f"{item['path']} looks for libraries in this workspace", why=why, fix=fix)


# --- the work of ``xpubuild store`` -----------------------------------------------------------------------


@dataclass
class Copies:
    """How copying went: the rows of ``xpubuild.store-copy/1``, and why some wheels were not copied."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: list[XpuBuildError] = field(default_factory=list)

    def add(self, name: str, file: str, store: Store, why: str | XpuBuildError = "") -> None:
        """Add a row; a text says that the store keeps what it has, an error that it has nothing."""
        if isinstance(why, XpuBuildError):
            self.failed.append(why)
            why = f"{why.what} ({why.why})" if why.why else why.what
        self.rows.append({"name": name, "file": file, "store": store.name, "kept": not why, "why": why})

    def copy(self, source: Store, record: Record, target: FolderStore) -> None:
        """Copy one kept wheel, every byte of it hashed."""
        why: str | XpuBuildError
        try:
            with scratch_folder("store") as folder:
                why = target.keep(record, source.bring(record, folder))
        except XpuBuildError as error:
            why = error
        except OSError as error:
            why = ToolchainError(f"{record.file} cannot be copied", why=str(error.strerror or error))
        self.add(record.dist, record.file, target, why)

    def failure(self) -> XpuBuildError | None:
        """Return the error of the whole: that of the first wheel which was not copied."""
        if not self.failed:
            return None
        first = self.failed[0]
        first.why = f"{first.what} ({first.why})" if first.why else first.what
        first.what = f"{len(self.failed)} of {len(self.rows)} wheels were not copied"
        return first


def folder_stores(places: Sequence[Path | Location]) -> list[FolderStore]:
    """Return the user's own store and the folders that were named.

    Raises:
        UsageError: a server was named: it is only asked for what it has by name, and only read.
    """
    trust, folders = trust_from(os.environ), [place for place in places if isinstance(place, Path)]
    for place in places:
        if isinstance(place, Location):
            fix = "run the command there with the folder of the store, or copy a folder with rsync"
            raise UsageError(f"the store {place} is on a server, and servers are only read", fix=fix)
    return [own_store(trust), *(FolderStore(place, trust) for place in folders)]


def require_there(stores: Iterable[FolderStore]) -> None:
    """Refuse stores that are not there: a name with a typing error must not look like an empty store.

    Raises:
        UsageError: naming the first of them.
    """
    for store in stores:
        if (why := store.why_not()) in (NOT_THERE, NOT_A_FOLDER):
            fix = "a store is a folder; name another with --store"
            raise UsageError(f"there is no store at {store.name}", why=why, fix=fix)


def push(places: Sequence[Path | Location]) -> Copies:
    """Copy the wheels of the user's own store to others. Folders are made.

    Raises:
        UsageError: a store is on a server or no folder, or none was named.
        ToolchainError, NoSpaceError: a store is not believed, or cannot be made.
    """
    own, *others = folder_stores(places)
    if not others:
        raise UsageError("no store to push to was named", fix="name the folder of a store with --store")
    for store in others:
        store.make()
        require_there([store])
        if why := store.why_not():
            what = f"the store {store.name} is not used"
            fix = "if you trust all who can write to it, add it to trust.stores of a configuration file"
            raise ToolchainError(what, why=why, fix=fix, commands=("xpubuild config",))
    copies = Copies()
    for (path, found), store in itertools.product(list(own.records()), others):
        if isinstance(found, Record):
            copies.copy(own, found, store)
        else:
            fix = "remove it from the store; what it was for is built again"
            damaged = SourceIntegrityError(f"{path} is damaged", why=found, fix=fix)
            copies.add(path.parent.name, "", store, damaged)
    return copies


def pull(prepared: Prepared) -> Copies:
    """Copy the wheels of a plan from the stores that have them to the user's own."""
    own, copies = own_store(trust_from(os.environ)), Copies()
    for step in with_stores(prepared, ()).plan.steps:
        keeper = step.keeper
        if isinstance(keeper, WheelKeeper):
            record, store = keeper.found.record, keeper.found.store
            if record is None or store is None:
                why = "; ".join(keeper.unanswered())
                copies.add(step.id, "", own, FetchError("no store has it", why=why, fix="install builds it"))
            elif isinstance(store, FolderStore) and store.own:
                copies.add(step.id, record.file, own)
            else:
                copies.copy(store, record, own)
    return copies
