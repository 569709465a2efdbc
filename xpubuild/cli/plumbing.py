"""``xpubuild plumbing``: the commands that plans run. Stable enough for scripts, not meant for people."""

from __future__ import annotations

import inspect
import json
import os
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild import resources
from xpubuild.cli import options
from xpubuild.engine.environment import base_environment
from xpubuild.supply.git.pin import Pin

if TYPE_CHECKING:
    from xpubuild.recipe.model import ConfigureTime


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _items(texts: tuple[str, ...]) -> list[ConfigureTime]:
    """Return the repositories that a build clones, of which each is one text of JSON."""
    from xpubuild.recipe.model import ConfigureTime

    return [ConfigureTime.model_validate(json.loads(text)) for text in texts]


@click.group(name="plumbing", hidden=True)
def plumbing() -> None:
    """Commands that plans run; for scripts, not for people."""


def _plumbing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a command from a function: positional parameters are arguments, keyword-only ones options."""
    hints = typing.get_type_hints(function)
    params: list[click.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        hint, name = hints[parameter.name], parameter.name.replace("_", "-")
        several = typing.get_origin(hint) is tuple
        kinds = typing.get_args(hint) or (hint,)
        kind: Any = click.Path(path_type=Path) if Path in kinds else int if int in kinds else str
        required = parameter.default is parameter.empty
        # Plans set these for their steps: they do not change the result.
        tuned = parameter.name in ("mirror", "offline", "workspace")
        variable = f"XPUBUILD_{parameter.name.upper()}" if tuned else None
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            nargs = -1 if several else 1
            params.append(click.Argument([parameter.name], type=kind, nargs=nargs, required=True))
        elif hint is bool:
            words = f"--{name}/--no-{name}" if parameter.default else f"--{name}"
            params.append(click.Option([words], is_flag=True, default=parameter.default, envvar=variable))
        else:
            default = None if required or several else parameter.default
            params.append(
                click.Option(
                    [f"--{name}"], type=kind, multiple=several, required=required, default=default,
                    envvar=variable,
                )
            )  # fmt: skip
    name = function.__name__.replace("_", "-")
    plumbing.add_command(click.Command(name, params=params, callback=function, help=function.__doc__))
    return function


@_plumbing
def make_env(env: Path, *, python: Path) -> None:
    """Create a Python environment."""
    from xpubuild.machine.make_env import make_env as make

    make(env, python)


@_plumbing
def repair_env(env: Path, *, held: Path | None = None) -> None:
    """Remove leftovers of an interrupted pip from an environment, and packages that replaced pinned ones."""
    from xpubuild.artifacts.freeze import let_go
    from xpubuild.artifacts.installed_repair import repair
    from xpubuild.artifacts.site_packages import site_packages_of

    site_packages = site_packages_of(env)
    for item in (*repair(site_packages), held and let_go(site_packages, held)):
        if item:
            _say(f"removed {item}")


@_plumbing
def leave_out(env: Path, names: tuple[str, ...]) -> None:
    """Remove packages from an environment, those of them that are there."""
    from xpubuild.artifacts.installed_repair import remove_dist
    from xpubuild.artifacts.site_packages import installed_dists, site_packages_of

    site_packages = site_packages_of(env)
    here = {dist.name for dist in installed_dists(site_packages)}
    for name in names:
        if name in here:
            _say(f"removed {name} and {remove_dist(site_packages, name)} of its files")


@_plumbing
def embed(project: str, folder: Path, *, commit: str) -> None:  # noqa: ARG001
    """Create git repositories from embedded sources and check them against the pin."""
    from xpubuild.install.inputs import embedded

    made = embedded(folder, commit)
    _say(f"{made.url} is at {made.commit}")


@_plumbing
def checkout(
    url: str, commit: str, into: Path, *, cache: Path, tree: str | None = None, ref: str | None = None,
    submodules: bool = True, skip_submodule: tuple[str, ...] = (), jobs: int = 4, mirror: Path | None = None,
    offline: bool = False,
) -> None:  # fmt: skip
    """Check out a pinned commit with its submodules."""
    from xpubuild.supply.git.checkout import checkout as make

    pin = Pin(url=url, commit=commit, tree=tree, submodules=submodules, ref=ref, skip=skip_submodule)
    with options.interruptible() as cancel:
        report = make(
            pin, into, cache=cache, jobs=jobs, env=base_environment(), report=_say, cancel=cancel,
            offline=offline, stocks=(mirror.absolute(),) if mirror is not None else (),
        )  # fmt: skip
    _say(f"{into} is at {commit} with {len(report.evidence['submodules'])} submodules")


@_plumbing
def repositories(
    into: Path, *, tree: Path, commit: str, cache: Path, item: tuple[str, ...], jobs: int = 4,
    mirror: Path | None = None, offline: bool = False,
) -> None:  # fmt: skip
    """Provide local copies of the repositories that a build clones while it configures."""
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git
    from xpubuild.supply.git.serving import serve_tree

    with options.interruptible() as cancel:
        stocks = (mirror.absolute(),) if mirror is not None else ()
        store = RepositoryStore(cache, Git.open(base_environment()), offline, stocks=stocks, cancel=cancel)
        for one in serve_tree(
            store, tree, commit, _items(item), into, environ=os.environ, jobs=jobs, report=_say
        ):
            _say(f"{one.url} is available at {one.commit}, requested as {one.asked_for}")


@_plumbing
def copy_tree(
    own: Path, into: Path, *, digest: str, item: tuple[str, ...] = (), skip_submodule: tuple[str, ...] = ()
) -> None:
    """Copy a user's own tree, or update the copy."""
    from xpubuild.errors import SourceIntegrityError
    from xpubuild.supply.git.git import Git
    from xpubuild.supply.git.own_tree import own_tree, synchronise

    items = _items(item)
    _say(f"{synchronise(own, into, items, skip_submodule)} files of {own} were copied or removed")
    found = own_tree(own, git=Git.open(), skip=skip_submodule, items=items, whole=True)
    if found is None or found.digest != digest:
        raise SourceIntegrityError(f"{own} was changed while it was copied", fix="run the same command again")


@_plumbing
def archives(
    into: Path, *, cache: Path, item: tuple[str, ...], mirror: Path | None = None, offline: bool = False
) -> None:
    """Unpack archives that a build would download itself."""
    from xpubuild.supply.archives import Archive, Supply, provide

    with options.interruptible() as cancel:
        supply = Supply(cache, mirror and mirror.absolute(), offline, cancel)
        provide([Archive(**json.loads(text)) for text in item], into, supply, _say)


@_plumbing
def front_end(
    folder: Path, *, wanted: str = "auto", setting: tuple[str, ...] = (),
    checkout: Path | None = None, commit: str | None = None, submodules: bool = True,
    skip_submodule: tuple[str, ...] = (), besides: tuple[str, ...] = (), kind: str = "wheel",
    item: tuple[str, ...] = (), notes: Path | None = None, workspace: Path | None = None,
) -> None:  # fmt: skip
    """Check that a source tree is the pinned one, and can be built the way the recipe says."""
    from xpubuild.artifacts.configure import check
    from xpubuild.supply.git.integrity import begin_build
    from xpubuild.supply.git.own_tree import prepare_build

    if workspace is not None:
        from xpubuild.workspace.check import require_accounted

        require_accounted(workspace)
    if checkout is not None:
        url = str(checkout.absolute())
        pin = Pin(url=url, commit=commit, submodules=submodules, skip=skip_submodule) if commit else None
        for line in prepare_build(checkout, _items(item)):
            _say(line)
        begin_build(checkout, pin, kind, besides, notes)
    _say(check(folder, wanted=wanted, settings=setting))


@_plumbing
def against(tree: Path, into: Path, *, env: Path, folder: str = ".", file: tuple[str, ...] = ()) -> None:
    """Copy a source tree, and answer its requirements on torch by what is installed."""
    from xpubuild.artifacts.against import rewrite
    from xpubuild.artifacts.site_packages import site_packages_of

    for line in rewrite(tree, into, folder, file, site_packages_of(env)):
        _say(line)


@_plumbing
def configure(folder: Path, *, env: Path, setting: tuple[str, ...] = ()) -> int:
    """Configure a source tree as its own build does, without compiling."""
    from xpubuild.artifacts.configure import configure as configure_tree

    return configure_tree(folder, env / "bin" / "python", setting, os.environ)


@_plumbing
def hold(env: Path, dist: str, file: Path) -> None:
    """Write the installed versions as constraints for later pip commands."""
    from xpubuild.artifacts.freeze import hold as write
    from xpubuild.artifacts.site_packages import site_packages_of

    _say(f"constraint: {write(site_packages_of(env), dist, file)}")


@_plumbing
def link_packages(
    env: Path, requirements: Path, *, uv: str, cache: Path, report: Path, python_version: str,
    constraint: tuple[Path, ...] = (), index: tuple[str, ...] = (), no_deps: bool = False,
) -> None:  # fmt: skip
    """Install a hashed requirement file with uv, which links the files from its cache."""
    from xpubuild.supply.uv.install import Installation

    with options.interruptible() as cancel:
        Installation(
            env, requirements, uv, cache, report, python_version, base_environment(), cancel, _say,
            constraint, index, whole=not no_deps,
        ).perform()  # fmt: skip


@_plumbing
def conda_env(
    env: Path, *, lock: Path, cache: Path, mirror: Path | None = None, offline: bool = False
) -> None:
    """Create an environment from a conda-lock.yml; the hash of every package is checked."""
    from xpubuild.supply.archives import Supply
    from xpubuild.supply.conda.environment import make_conda_env
    from xpubuild.supply.conda.lockfile import read_lock

    document = read_lock(lock.read_text("utf-8"), name=str(lock))
    supply = Supply(cache, mirror and mirror.absolute(), offline)
    done = make_conda_env(env, document, supply, base_environment(), _say)
    _say(f"{env} {'was created' if done else 'exists'}")


@_plumbing
def ci_script() -> None:
    """Print the path of the script that CI jobs run."""
    _say(str(resources.ci_script()))
