"""``xpubuild plumbing``: the commands that plans run. Stable enough for scripts, not meant for people."""

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
    """Commands that plans run; for scripts, not for people."""


@command.command(name="make-env")
@click.argument("env", type=click.Path(path_type=Path))
@click.option("--python", "python", required=True)
def make_env(env: Path, python: str) -> int:
    """Create a Python environment."""
    from xpubuild.machine.make_env import make_env as make

    make(env, Path(python))
    return 0


@command.command(name="repair-env")
@click.argument("env", type=click.Path(path_type=Path))
@click.option("--held", type=click.Path(path_type=Path), default=None)
def repair_env(env: Path, held: Path | None) -> int:
    """Remove leftovers of an interrupted pip from an environment, and packages that replaced pinned ones."""
    from xpubuild.artifacts.freeze import let_go
    from xpubuild.artifacts.installed_repair import repair
    from xpubuild.artifacts.site_packages import site_packages_of

    site_packages = site_packages_of(env)
    for item in (*repair(site_packages), held and let_go(site_packages, held)):
        if item:
            _say(f"removed {item}")
    return 0


@command.command(name="leave-out")
@click.argument("env", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, required=True)
def leave_out(env: Path, names: tuple[str, ...]) -> int:
    """Remove packages from an environment, those of them that are there."""
    from xpubuild.artifacts.installed_repair import remove_dist
    from xpubuild.artifacts.site_packages import installed_dists, site_packages_of

    site_packages = site_packages_of(env)
    here = {dist.name for dist in installed_dists(site_packages)}
    for name in names:
        if name in here:
            _say(f"removed {name} and {remove_dist(site_packages, name)} of its files")
    return 0


@command.command(name="make-portable")
@click.argument("wheels", type=click.Path(path_type=Path))
@click.argument("dist")
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--runtime", type=click.Path(path_type=Path), required=True)
@click.option("--builder", multiple=True, type=click.Path(path_type=Path))
def make_portable(wheels: Path, dist: str, output: Path, runtime: Path, builder: tuple[Path, ...]) -> int:
    """Repair the wheel of a distribution for other machines."""
    from xpubuild.artifacts.repair_decide import RepairRequest
    from xpubuild.artifacts.step_proofs import find_wheel
    from xpubuild.artifacts.wheel_repair import repair_wheel

    done = repair_wheel(find_wheel(wheels, dist), RepairRequest(runtime=runtime, builder=builder), output)
    for pin in done["pins"]:
        _say(f"requires {pin['name']}=={pin['version']} for {', '.join(pin['libraries'])}")
    for item in done["bundled"]:
        _say(f"{item['library']} is in it as {item['member']}")
    _say(f"{Path(done['wheel']).name} is for {done['platform']}")
    return 0


@command.command()
@click.argument("project")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--commit", required=True)
def embed(project: str, folder: Path, commit: str) -> int:  # noqa: ARG001
    """Create git repositories from embedded sources and check them against the pin."""
    from xpubuild.engine.environment import base_environment
    from xpubuild.errors import SourceIntegrityError
    from xpubuild.resources import ops_project_dir
    from xpubuild.supply.git.embedded import materialise

    made = materialise(ops_project_dir(), folder, env=base_environment())
    if made.commit != commit:
        raise SourceIntegrityError(
            f"the embedded sources are at commit {made.commit}, but the recipe pins {commit}",
            why="the recipe is for another version of xpubuild, or an embedded file was changed",
            fix="reinstall xpubuild, or pin that commit in the recipe",
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
    skip: tuple[str, ...],
    jobs: int,
    mirror: Path | None,
    offline: bool,
) -> int:
    """Check out a pinned commit with its submodules."""
    from xpubuild.engine.environment import base_environment
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.supply.git.checkout import checkout as make
    from xpubuild.supply.git.pin import Pin

    pin = Pin(url=url, commit=commit, tree=tree, submodules=submodules, ref=ref, skip=skip)
    cancel = Cancel()
    with cancel_on_signals(cancel):
        report = make(
            pin, into, cache=cache, jobs=jobs, env=base_environment(), report=_say, cancel=cancel,
            offline=offline, stocks=(mirror,) if mirror is not None else (),
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
    """Provide local copies of the repositories that a build clones while it configures."""
    import json
    import os

    from xpubuild.engine.environment import base_environment
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.recipe.model import ConfigureTime
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git
    from xpubuild.supply.git.serving import serve_tree

    cancel = Cancel()
    with cancel_on_signals(cancel):
        stocks = (mirror,) if mirror is not None else ()
        store = RepositoryStore(cache, Git.open(base_environment()), offline, stocks=stocks, cancel=cancel)
        wanted = [ConfigureTime.model_validate(json.loads(item)) for item in items]
        found = serve_tree(store, tree, commit, wanted, into, environ=os.environ, jobs=jobs, report=_say)
        for item in found:
            _say(f"{item.url} is available at {item.commit}, requested as {item.asked_for}")
    return 0


@command.command()
@click.argument("into", type=click.Path(path_type=Path))
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--item", "items", multiple=True, required=True)
@options.path_option("--mirror", default=None)
@options.option("--offline", is_flag=True)
def archives(into: Path, cache: Path, items: tuple[str, ...], mirror: Path | None, offline: bool) -> int:
    """Unpack archives that a build would download itself."""
    import json

    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.supply.archives import Archive, Supply, provide
    from xpubuild.supply.depot.folder import archives_in

    cancel = Cancel()
    with cancel_on_signals(cancel):
        supply = Supply(cache, archives_in(mirror), offline, cancel)
        provide([Archive(**json.loads(item)) for item in items], into, supply, _say)
    return 0


@command.command(name="front-end")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--env", type=click.Path(path_type=Path), required=True)
@click.option("--wanted", default="auto")
@click.option("--setting", "settings", multiple=True)
@click.option("--checkout", type=click.Path(path_type=Path), default=None)
@click.option("--commit", default=None)
@click.option("--submodules/--no-submodules", default=True)
@click.option("--skip-submodule", "skip", multiple=True)
@click.option("--besides", multiple=True)
@click.option("--kind", default="wheel")
def front_end(
    folder: Path,
    env: Path,
    wanted: str,
    settings: tuple[str, ...],
    checkout: Path | None,
    commit: str | None,
    submodules: bool,
    skip: tuple[str, ...],
    besides: tuple[str, ...],
    kind: str,
) -> int:
    """Check that a source tree is the pinned one, and can be built the way the recipe says."""
    from xpubuild.artifacts.configure import check
    from xpubuild.supply.git.integrity import begin_build
    from xpubuild.supply.git.pin import Pin

    if checkout is not None:
        pin = (
            Pin(url=str(checkout.absolute()), commit=commit, submodules=submodules, skip=skip)
            if commit
            else None
        )
        begin_build(checkout, pin, kind, besides)
    for line in check(folder, env, wanted=wanted, settings=settings):
        _say(line)
    return 0


@command.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--env", type=click.Path(path_type=Path), required=True)
@click.option("--setting", "settings", multiple=True)
def configure(folder: Path, env: Path, settings: tuple[str, ...]) -> int:
    """Configure a source tree as its own build does, without compiling."""
    import os

    from xpubuild.artifacts.configure import configure as configure_tree

    return configure_tree(folder, env / "bin" / "python", settings, os.environ)


@command.command()
@click.argument("env", type=click.Path(path_type=Path))
@click.argument("dist")
@click.argument("file", type=click.Path(path_type=Path))
def hold(env: Path, dist: str, file: Path) -> int:
    """Write the installed versions as constraints for later pip commands."""
    from xpubuild.artifacts.freeze import hold as write
    from xpubuild.artifacts.site_packages import site_packages_of

    _say(f"constraint: {write(site_packages_of(env), dist, file)}")
    return 0


@command.command(name="link-packages")
@click.argument("env", type=click.Path(path_type=Path))
@click.argument("requirements", type=click.Path(path_type=Path))
@click.option("--uv", required=True)
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--report", type=click.Path(path_type=Path), required=True)
@click.option("--python-version", required=True)
@click.option("--constraint", "constraints", multiple=True, type=click.Path(path_type=Path))
@click.option("--index", "indexes", multiple=True)
@click.option("--no-deps", is_flag=True)
def link_packages(
    env: Path,
    requirements: Path,
    uv: str,
    cache: Path,
    report: Path,
    python_version: str,
    constraints: tuple[Path, ...],
    indexes: tuple[str, ...],
    no_deps: bool,
) -> int:
    """Install a hashed requirement file with uv, which links the files from its cache."""
    from xpubuild.engine.environment import base_environment
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.supply.uv.install import Installation, install

    wish = Installation(
        env, requirements, uv, cache, report, python_version, constraints, indexes, whole=not no_deps
    )
    cancel = Cancel()
    with cancel_on_signals(cancel):
        install(wish, base_environment(), cancel, _say)
    return 0


@command.command(name="conda-lock")
@click.argument("specs", nargs=-1, required=True)
@click.option("--channel", "channels", multiple=True, required=True)
@click.option("--cache", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), required=True)
def conda_lock(specs: tuple[str, ...], channels: tuple[str, ...], cache: Path, output: Path) -> int:
    """Solve conda specifications; write a conda-lock.yml without packages that conflict with an XPU build."""
    import os

    from xpubuild.engine.environment import base_environment
    from xpubuild.engine.files import write_atomic
    from xpubuild.supply.conda.channels import read_condarc, resolve
    from xpubuild.supply.conda.libstdcxx import machine_need
    from xpubuild.supply.conda.solve import Wanted, find_engines, make_lock

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
    """Create an environment from a conda-lock.yml; the hash of every package is checked."""
    import os

    from xpubuild.engine.environment import base_environment
    from xpubuild.supply.conda.archives import Supply, in_folder
    from xpubuild.supply.conda.channels import read_condarc, resolve
    from xpubuild.supply.conda.environment import Installation, make_conda_env, read_lock_file
    from xpubuild.supply.conda.solve import find_engines

    document = read_lock_file(lock)
    channels = resolve(document.channels, read_condarc(os.environ))
    supply = Supply(cache=cache, offline=offline, channels=channels)
    if mirror is not None:
        supply = Supply(cache=cache, find=in_folder(mirror / "files"), offline=offline, channels=channels)
    engines, environment = find_engines(os.environ), base_environment()
    done = make_conda_env(Installation(env, document, supply, engines, environment, _say))
    _say(f"{env} {'was created' if done else 'exists'}")
    return 0


@command.command(name="ci-script")
def ci_script() -> int:
    """Print the path of the script that CI jobs run."""
    from xpubuild import resources

    _say(str(resources.ci_script()))
    return 0
