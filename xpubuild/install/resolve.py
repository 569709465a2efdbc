"""From options to a target and its plan: recipe, host and everything around them are looked at once each.

A branch such as main has new commits every day. If each run used the newest one, each run would build for
hours, so a workspace keeps its commit until ``--update`` is passed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import platformdirs

from xpubuild.documents import built, plain
from xpubuild.engine.answers import Answers
from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import write_json
from xpubuild.engine.places import existing
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, UnsatisfiableError, UsageError, XpuBuildError
from xpubuild.install.build_compilers import build_compilers, compile_cache
from xpubuild.install.build_jobs import capacity
from xpubuild.install.choose import check_host, choose, for_gpus_here, for_python
from xpubuild.install.kept import stores_of
from xpubuild.install.options import Options, Resolved
from xpubuild.install.patching import with_patches
from xpubuild.install.planner import make_plan
from xpubuild.install.release import named, with_alternatives
from xpubuild.install.target import Choice, Downloads, Installer, Prepared, Target
from xpubuild.machine.compilers import choose_compilers
from xpubuild.machine.disk import disk_facts
from xpubuild.machine.envmark import check_name
from xpubuild.machine.host_report import HostReport, host_report
from xpubuild.machine.pythons import require_python, resolve_python
from xpubuild.recipe.compatible_host import of_host
from xpubuild.recipe.lint import unused_switches
from xpubuild.recipe.load import load, requirement_file
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import switches
from xpubuild.supply.depot.entries import PAGE
from xpubuild.supply.depot.location import Location
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.own_tree import OwnTree, own_tree
from xpubuild.supply.git.pin import is_id
from xpubuild.supply.git.serving import named_commit
from xpubuild.supply.index.pipconf import offline_environment, pip_settings
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.workspace.layout import Layout, require_plain


def prepare(options: Options, *, cancel: Cancel | None = None) -> Prepared:
    """Look at recipe and host and return the target and its plan.

    Raises:
        XpuBuildError: one of RecipeError, UsageError, UnsatisfiableError, ToolchainError, FetchError; nothing
            was made.
    """
    _ = options.job_count  # a wrong number is reported before a host is looked at
    python = None
    with contextlib.suppress(XpuBuildError):  # a wrong one is reported when the plan needs it
        python = None if options.packages == "conda" else resolve_python(options.python, base_environment())

    @functools.cache
    def host() -> HostReport:
        """Look at this host, once; its disk is that of the current folder."""
        return host_report(oneapi_root=options.oneapi_root, python=python, answers=remembered())

    asked, why = named(options, host)
    loaded = load(asked.recipe or "", asked.with_)
    try:
        # Refusals that need no look at the machine come first: they are certain and cost nothing.
        choice = choose(asked, loaded)
        require_plain(choice.layout.root)
        target = resolve(choice, replace(host(), disk=disk_facts(choice.layout.root)), why, cancel)
        return Prepared(target, make_plan(target), loaded.recipe.needs.disk_gib)
    except UnsatisfiableError as error:
        raise with_alternatives(error, loaded.recipe, asked, host()) from error


def resolve(choice: Choice, host: HostReport, why: str = "", cancel: Cancel | None = None) -> Target:
    """Return what was chosen with everything that this machine says of it.

    Raises:
        XpuBuildError: an interpreter, compiler, oneAPI, conda package or commit that is needed is not there.
    """
    recipe, choice = choice.recipe, for_gpus_here(_with_local_mirror(choice, cancel), host)
    options, conda = choice.options, conda_lock_of(choice)
    python, version = _python(choice, host, conda)
    choice = for_python(choice, version)
    compilers = choose_compilers(recipe.needs.gcc, caller=os.environ, system=host.os, known=host.compilers)
    gcc = compilers.cxx.version
    jobs, admission = capacity(choice, host, gcc)
    oneapi, unknown_to_ocloc = None, None
    if choice.device == "xpu":
        from xpubuild.install.xpu_toolchain import ocloc_lacks, oneapi_facts  # noqa: PLC0415 - for XPU alone

        oneapi = oneapi_facts(choice)
        unknown_to_ocloc = ocloc_lacks(choice, gcc, oneapi, host.os) if oneapi is not None else None
    used = build_compilers(compilers, oneapi)
    sources = any(choice.component(name).kind == "source" for name in choice.components)
    cache = compile_cache(options.compile_cache, used, oneapi) if sources else ""
    downloads, trees = downloads_from(options.mirror_folder, offline=options.offline), _own_trees(choice)
    target = Target(
        **vars(choice), python=python, python_version=version, compilers=used, jobs=jobs.jobs,
        jobs_reason=jobs.reason, cache=platformdirs.user_cache_path("xpubuild"),
        requirements=requirement_texts(choice), oneapi=oneapi, trees=trees,
        dirty={name: tree.digest for name, tree in trees.items()},
        warnings=ignored_variables(choice, os.environ),
        situation=replace(of_host(host, choice.device), ocloc_lacks=unknown_to_ocloc), why=why,
        downloads=downloads, installer=installer_for(choice, downloads), conda_lock=conda,
        compile_cache=None if isinstance(cache, str) else cache,
        no_compile_cache=cache if isinstance(cache, str) else "", admission=admission,
        cores=host.cpu.usable, host=host.to_json(),
        stores=stores_of(options.store, offline=options.offline),
    )  # fmt: skip
    check_name(target.layout.env)
    verdict = check_host(target)
    # Upstream is asked last: for what this host cannot build no commit is needed.
    store = git_store(target, cancel=cancel)
    resolved = resolve_commits(choice, store)
    return with_patches(replace(target, verdict=verdict, resolved=resolved), store)


def requirement_texts(choice: Choice) -> dict[str, str]:
    """Return the hashed requirement files of what was chosen by name."""
    names = choice.requirement_names()
    return {name: requirement_file(choice.loaded, name).read_text("utf-8") for name in names}


def conda_lock_of(choice: Choice) -> str | None:
    """Return the text of the conda-lock.yml for ``--packages conda``; None for a virtual environment.

    Raises:
        UnsatisfiableError, RecipeError, FetchError, ToolchainError: see ``conda_lock``.
    """
    if choice.options.packages == "conda":
        from xpubuild.install.conda_environment import conda_lock  # noqa: PLC0415 - for few

        return conda_lock(choice)
    if choice.options.conda_lock is not None:
        fix = "add --packages conda, or omit --conda-lock"
        raise UsageError("--conda-lock needs --packages conda", fix=fix)
    return None


def ignored_variables(choice: Choice, caller: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning that names the variables which a build by hand would have read; nothing without them.

    The base environment is an allow-list, so they change nothing here, and who set them may think they do.
    """
    known = {switch.component for switch in switches().values() if switch.kind == "build"}
    built = any(name in known and choice.component(name).source for name in choice.components)
    kinds = {*(["build"] if built else []), *(["runtime"] if choice.device == "xpu" else [])}
    names = unused_switches(choice.recipe, kinds, caller, base_environment(caller))
    text = "set in your shell, ignored by the build (use the recipe or options): "
    return (text + ", ".join(names),) if names else ()


def _python(choice: Choice, host: HostReport, conda: str | None) -> tuple[str, str]:
    """Return the interpreter and its version: of this machine, or the one that conda will install."""
    if conda is not None:
        from xpubuild.supply.conda.lockfile import read_lock  # noqa: PLC0415 - for few

        return str(choice.layout.python), read_lock(conda).python
    executable = resolve_python(choice.options.python, base_environment())
    known = host.python.selected
    found = require_python(executable, choice.recipe.needs.python, system=host.os, known=known)
    return found.executable, found.version


def _own_trees(choice: Choice) -> dict[str, OwnTree]:
    """Return the trees that are built with somebody's edits."""
    found = {}
    for name in choice.components:
        own, source = choice.own(name), choice.component(name).source
        checkout = own or choice.layout.src / name
        if source is None or not (own or (choice.options.allow_dirty and (checkout / ".git").exists())):
            continue
        tree = own_tree(
            checkout, git=Git.open(answers=remembered()), skip=source.skip_submodules,
            items=source.configure_time, pin=source.commit, whole=own is not None, notes=choice.notes(name),
        )  # fmt: skip
        if tree is not None:
            found[name] = tree
    return found


def _with_local_mirror(choice: Choice, cancel: Cancel | None) -> Choice:
    """From here on a mirror is a folder, wherever it is served."""
    options = choice.options
    if not isinstance(options.mirror, Location):
        return choice
    from xpubuild.supply.depot.served import Served, local_copy  # noqa: PLC0415 - requests, for few

    into = platformdirs.user_cache_path("xpubuild") / "mirrors" / options.mirror.folder_name
    served = Served(options.mirror, cancel=cancel)
    mirror = local_copy(served, into, choice.recipe.name, sink=options.telling, cancel=cancel)
    return replace(choice, options=replace(options, mirror=mirror))


# --- where a build gets what it takes from elsewhere -----------------------------------------------------


def remembered() -> Answers:
    """Return what the programs of this host report about themselves, kept in the user's cache."""
    return Answers(platformdirs.user_cache_path("xpubuild") / "answers")


def git_store(target: Target, *, cancel: Cancel | None = None) -> RepositoryStore:
    """Return the user's git mirrors, filled from where the target says.

    Raises:
        ToolchainError: git is missing or too old.
    """
    return RepositoryStore(
        target.cache,
        Git.open(answers=remembered()),
        offline=target.downloads.offline,
        stocks=() if target.downloads.mirror is None else (target.downloads.mirror,),
        cancel=Cancel() if cancel is None else cancel,
    )


def downloads_from(mirror: Path | None, *, offline: bool) -> Downloads:
    """Return what the options say; offline without a mirror, pip is left its configured wheel folders.

    Raises:
        FetchError: there is no mirror at this place.
        UsageError: the folder is something else.
    """
    if mirror is None:
        return Downloads(offline=offline, pip={"PIP_NO_INDEX": "1"} if offline else {})
    from xpubuild.supply.depot.folder import Depot  # noqa: PLC0415 - for few

    Depot.open(mirror)
    page = mirror / PAGE
    # pip splits this variable at blanks; a URL has none.
    links = f"{base_environment().get('PIP_FIND_LINKS', '')} {page.as_uri()}".strip()
    pip = offline_environment(page) if offline else {"PIP_FIND_LINKS": links}
    return Downloads(mirror=mirror, offline=offline, pip=pip)


def installer_for(choice: Choice, downloads: Downloads) -> Installer:
    """Return uv where it can be used and is not ruled out, else pip with the reason.

    Raises:
        ToolchainError: a configuration file of pip cannot be read.
    """
    if choice.options.installer == "pip":
        return Installer(why="--installer pip")
    if choice.options.packages == "conda":
        return Installer(why="the environment is of conda")
    from xpubuild.supply.index.pipconf import find_uv, reason_for_pip  # noqa: PLC0415
    from xpubuild.supply.uv.install import not_ours  # noqa: PLC0415 - for few

    settings = pip_settings({**base_environment(), **downloads.pip})
    if "PIP_NO_CACHE_DIR" in downloads.pip:
        settings.pop("no-cache-dir", None)  # what an offline build says of pip's own cache
    program, cache = find_uv(), platformdirs.user_cache_path("xpubuild") / "uv"
    if why := program.why or reason_for_pip(settings) or not_ours(cache):
        return Installer(why=why)
    links = existing(cache).stat().st_dev == existing(choice.layout.root).stat().st_dev
    return Installer(program.path, program.version, cache, links=links)


def resolve_commits(choice: Choice, store: RepositoryStore) -> dict[str, Resolved]:
    """Return the commits of the sources that the recipe pins by ``ref`` alone.

    What a lock says is taken, then what the workspace found the first time, unless an update was asked for or
    URL or ref have changed. Else a stock of ``store`` that remembers the ref counts before upstream.

    Raises:
        FetchError: upstream cannot be asked, or has no such tag or branch.
    """
    kept = {} if choice.options.update else read_resolved(choice.layout.resolved)
    kept |= choice.options.resolved
    found: dict[str, Resolved] = {}
    for name in choice.components:
        source, known = choice.component(name).source, kept.get(name)
        if source is None or source.commit or choice.own(name) or source.url is None or source.ref is None:
            continue
        if known is None or (known.url, known.ref) != (source.url, source.ref):
            known = _look_up(choice.recipe, name, source.url, source.ref, store)
        found[name] = known
    return found


def _look_up(recipe: Recipe, name: str, url: str, ref: str, store: RepositoryStore) -> Resolved:
    try:
        commit = named_commit(store, url, ref)
    except FetchError as error:
        error.what = f"the commit of {name} is unknown: {error.what}"
        follows = f"recipe '{recipe.name}' follows {ref}, whose commit must be looked up upstream"
        error.why = f"{follows}: {error.why}"
        pinned = f"has the full commit id at components.{name}.source.commit"
        error.fix += f". Without a network, write a recipe that extends this one and {pinned}"
        raise
    return Resolved(ref=ref, commit=commit, url=url, when=time.strftime("%Y-%m-%dT%H:%M:%S%z"))


def read_resolved(path: Path) -> dict[str, Resolved]:
    """Return what a workspace looked up before; nothing where that cannot be read: it is then asked again."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = built(Mapping[str, Resolved], json_value(read_bytes(path))["resolved"])
        return {name: item for name, item in found.items() if is_id(item.commit)}
    return {}


def keep_resolved(layout: Layout, resolved: Mapping[str, Resolved]) -> None:
    """Write down what was looked up, beside what other components of the workspace have."""
    if resolved:
        whole = {**read_resolved(layout.resolved), **resolved}
        write_json(layout.resolved, {"version": 1, "resolved": plain(whole)})
