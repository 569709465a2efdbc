"""``xpubuild plumbing``: the commands that plans are made of. Stable enough for scripts, not for people."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from xpubuild.cli import options


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@click.group(name="plumbing", hidden=True)
def command() -> None:
    """Commands that plans are made of."""


@command.command(name="make-env")
@click.argument("env", type=click.Path(path_type=Path))
@click.option("--python", "python", required=True)
def make_env(env: Path, python: str) -> int:
    """Make a Python environment."""
    from xpubuild.toolchain.make_env import make_env as make

    make(env, Path(python))
    return 0


@command.command(name="repair-env")
@click.argument("env", type=click.Path(path_type=Path))
@click.option("--held", type=click.Path(path_type=Path), default=None)
def repair_env(env: Path, held: Path | None) -> int:
    """Remove what an interrupted pip left in an environment, and what took the place of what is held."""
    from xpubuild.build.envrepair import repair
    from xpubuild.build.held import let_go
    from xpubuild.build.sitepackages import site_packages_of

    site_packages = site_packages_of(env)
    for item in (*repair(site_packages), held and let_go(site_packages, held)):
        if item:
            _say(f"removed {item}")
    return 0


@command.command()
@click.argument("project")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--commit", required=True)
def embed(project: str, folder: Path, commit: str) -> int:  # noqa: ARG001
    """Make git repositories of embedded sources and hold them against the pin."""
    from xpubuild.engine.environment import base_environment
    from xpubuild.errors import SourceIntegrityError
    from xpubuild.resources import ops_project_dir
    from xpubuild.source.embedded import materialise

    made = materialise(ops_project_dir(), folder, env=base_environment())
    if made.commit != commit:
        raise SourceIntegrityError(
            f"the embedded sources are commit {made.commit}, the recipe pins {commit}",
            why="recipe and xpubuild are of different versions, or an embedded file was changed",
            fix="reinstall xpubuild, or pin the commit that was found",
        )
    _say(f"{made.root_url} is at {made.commit}")
    return 0


@command.command()
@click.argument("url")
@click.argument("commit")
@click.argument("into", type=click.Path(path_type=Path))
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--tree", default=None)
@click.option("--ref", default=None)
@click.option("--submodules/--no-submodules", default=True)
@click.option("--besides", multiple=True)
@click.option("--skip-submodule", "skip", multiple=True)
@click.option("--jobs", default=4)
@options.path_option("--mirror", default=None)
@options.option("--offline", is_flag=True)
def checkout(
    url: str,
    commit: str,
    into: Path,
    cache: Path,
    tree: str | None,
    ref: str | None,
    submodules: bool,
    besides: tuple[str, ...],
    skip: tuple[str, ...],
    jobs: int,
    mirror: Path | None,
    offline: bool,
) -> int:
    """Make a pinned checkout with its submodules."""
    from xpubuild.engine.environment import base_environment
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.source.checkout import checkout as make
    from xpubuild.source.pin import Pin

    pin = Pin(url=url, commit=commit, tree=tree, submodules=submodules, ref=ref, skip=skip)
    cancel = Cancel()
    with cancel_on_signals(cancel):
        report = make(
            pin, into, cache=cache, jobs=jobs, env=base_environment(), report=_say, besides=besides,
            cancel=cancel, offline=offline, stocks=(mirror,) if mirror is not None else (),
        )  # fmt: skip
    _say(f"{into} is at {commit} with {len(report.evidence['submodules'])} submodules")
    return 0


@command.command()
@click.argument("into", type=click.Path(path_type=Path))
@click.option("--tree", type=click.Path(path_type=Path), required=True)
@click.option("--commit", required=True)
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--item", "items", multiple=True, required=True)
@click.option("--jobs", default=4)
@options.path_option("--mirror", default=None)
@options.option("--offline", is_flag=True)
def repositories(
    into: Path,
    tree: Path,
    commit: str,
    cache: Path,
    items: tuple[str, ...],
    jobs: int,
    mirror: Path | None,
    offline: bool,
) -> int:
    """Serve the repositories that a build clones while it configures."""
    import json
    import os

    from xpubuild.engine.environment import base_environment
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.recipe.model import ConfigureTime
    from xpubuild.source.git import Git
    from xpubuild.source.mirror import MirrorStore
    from xpubuild.source.serving import serve_tree

    cancel = Cancel()
    with cancel_on_signals(cancel):
        stocks = (mirror,) if mirror is not None else ()
        store = MirrorStore(cache, Git.open(base_environment()), offline, stocks=stocks, cancel=cancel)
        wanted = [ConfigureTime.model_validate(json.loads(item)) for item in items]
        found = serve_tree(store, tree, commit, wanted, into, environ=os.environ, jobs=jobs, report=_say)
        for item in found:
            _say(f"{item.url} is served at {item.commit}, asked for as {item.asked_for}")
    return 0


@command.command(name="front-end")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--env", type=click.Path(path_type=Path), required=True)
@click.option("--wanted", default="auto")
@click.option("--setting", "settings", multiple=True)
def front_end(folder: Path, env: Path, wanted: str, settings: tuple[str, ...]) -> int:
    """Hold a source tree against what the recipe says about how it is built."""
    from xpubuild.build.treekind import check

    for line in check(folder, env, wanted=wanted, settings=settings):
        _say(line)
    return 0


@command.command()
@click.argument("env", type=click.Path(path_type=Path))
@click.argument("dist")
@click.argument("file", type=click.Path(path_type=Path))
def hold(env: Path, dist: str, file: Path) -> int:
    """Write down what is installed, as constraints that later pip commands must keep."""
    from xpubuild.build.held import hold as write
    from xpubuild.build.sitepackages import site_packages_of

    _say(f"held: {write(site_packages_of(env), dist, file)}")
    return 0


@command.command(name="conda-lock")
@click.argument("specs", nargs=-1, required=True)
@click.option("--channel", "channels", multiple=True, required=True)
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), required=True)
def conda_lock(specs: tuple[str, ...], channels: tuple[str, ...], cache: Path, output: Path) -> int:
    """Solve conda specifications and write a conda-lock.yml without packages that harm an XPU build."""
    import os

    from xpubuild.build.conda_host import machine_need
    from xpubuild.conda.channels import read_condarc, resolve
    from xpubuild.conda.engines import find_engines
    from xpubuild.conda.solve import Wanted, make_lock
    from xpubuild.engine.environment import base_environment
    from xpubuild.engine.files import write_atomic

    need = machine_need()
    wanted = Wanted(specs, resolve(channels, read_condarc(os.environ)), need.version if need else None)
    text = make_lock(
        wanted, find_engines(os.environ), environment=base_environment(), cache=cache, report=_say
    )
    write_atomic(output, text.encode())
    _say(f"{output} is written")
    return 0


@command.command(name="conda-env")
@click.argument("env", type=click.Path(path_type=Path))
@click.option("--lock", "lock", type=click.Path(path_type=Path), required=True)
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@options.path_option("--mirror", default=None)
@options.option("--offline", is_flag=True)
def conda_env(env: Path, lock: Path, cache: Path, mirror: Path | None, offline: bool) -> int:
    """Make an environment of the conda packages that a conda-lock.yml names, each held against its hash."""
    import os

    from xpubuild.conda.archives import Supply, in_folder
    from xpubuild.conda.channels import read_condarc, resolve
    from xpubuild.conda.engines import find_engines
    from xpubuild.conda.install import Installation, make_conda_env, read_lock_file
    from xpubuild.engine.environment import base_environment

    document = read_lock_file(lock)
    channels = resolve(document.channels, read_condarc(os.environ))
    supply = Supply(cache=cache, offline=offline, channels=channels)
    if mirror is not None:
        supply = Supply(cache=cache, find=in_folder(mirror / "files"), offline=offline, channels=channels)
    engines, environment = find_engines(os.environ), base_environment()
    done = make_conda_env(Installation(env, document, supply, engines, environment, _say))
    _say(f"{env} {'is made' if done else 'is there'}")
    return 0
