"""Commands about a build of RECIPE: ``install``, ``rehearse``, ``plan``, ``lock``, ``fetch``, ``image``."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options
from xpubuild.cli.diagnose import examined, write_bundle
from xpubuild.cli.verify import forget_suites, run_suites
from xpubuild.engine.files import write_atomic, write_json
from xpubuild.engine.places import cannot_write
from xpubuild.engine.process import Cancel
from xpubuild.errors import ToolchainError, UsageError, XpuBuildError
from xpubuild.ui.console import print_json, show, warn, write_out
from xpubuild.ui.run_views import final_view, plan_view, rehearsal_view
from xpubuild.ui.supply_views import differences_view, fetch_progress, fetch_view, lock_written_view
from xpubuild.ui.views import image_view, planned_jobs_view

if TYPE_CHECKING:
    from xpubuild.images.stages import Format
    from xpubuild.install.options import Options
    from xpubuild.install.target import Prepared


def _asked(build: dict[str, Any], **more: Any) -> Options:
    from xpubuild.install.options import Options

    return Options(**build, telling=options.new_sink, **more)


def _prepared(build: dict[str, Any], cancel: Cancel | None = None) -> Prepared:
    """Return the plan that the options of a build and those about locks ask for."""
    from xpubuild.install.install import prepare_as_asked

    return prepare_as_asked(_asked(build), cancel=cancel)


def _writable(option: str, folder: Path | None) -> Path | None:
    """Return a folder for results; None, with a warning, where the site names one that is not this user's.

    Raises:
        ToolchainError: the user names a folder that this user cannot write to.
    """
    why = cannot_write(folder) if folder is not None else ""
    if not why:
        return folder
    source = click.get_current_context().get_parameter_source(option.replace("-", "_"))
    is_set = source is click.core.ParameterSource.DEFAULT_MAP
    if is_set and options.configuration().layer("install", option) == "site":
        warn(f"{option} of the site's configuration is left out: {why}")
        return None
    fix = f"use a folder that you can write to with --{option}, or none with --{option} ''"
    raise ToolchainError(f"{folder} cannot be written", why=f"{why}, for --{option}", fix=fix)


@options.command("install")
def install(
    wheel_dir: Path | None, sign_key: Path | None, libtorch: Path | None, module_dir: Path | None,
    module_default: bool, module_format: str, depends_on: tuple[str, ...],
    until: str | None, dry_run: bool, bundle: Path | None,
    **build: Any,
) -> int:  # fmt: skip
    """Build RECIPE (a name, a file or a lock) in a workspace and verify the result.

    Without RECIPE, builds the newest release that upstream builds with the oneAPI of this host, else the
    newest that can be built, or in an activated workspace the recipe of that workspace.

    To resume after a failure or an interruption, run the same command again: finished steps are kept.
    """
    from xpubuild.install.install import apply, check_until
    from xpubuild.install.results import Results
    from xpubuild.verify.reports import require_places
    from xpubuild.workspace.modulefile import Modules

    error = None
    wheel_dir, module_dir = _writable("wheel-dir", wheel_dir), _writable("module-dir", module_dir)
    if module_default and module_dir is None:
        raise click.UsageError("--module-default is for --module-dir")

    def lost(receipt: dict[str, Any]) -> None:
        if not options.speech().as_json:
            show(final_view(receipt))

    with options.interruptible() as cancel:
        prepared = _prepared(build, cancel)
        modules = Modules(module_dir, module_format, depends_on, module_default) if module_dir else None
        results = Results(wheel_dir, sign_key, libtorch, modules)
        if dry_run:
            results.require_possible(prepared)
            check_until(prepared.plan, until)
            return _show_plan(prepared, "table", until)
        require_places(bundle)
        workspace = Path(prepared.plan.workspace)
        if bundle is not None:
            forget_suites(workspace)
        try:
            with options.new_sink() as sink:
                receipt = apply(prepared, sink=sink, cancel=cancel, until=until, results=results, lost=lost)
            if bundle is not None and receipt["status"] == "complete":
                error = run_suites(workspace, cancel, quiet=options.speech().quiet)
        finally:
            if bundle is not None:
                _, host = examined(("run", "build"), workspace=workspace)
                write_bundle(bundle, host, workspace)
    title = f"xpubuild install {receipt['recipe']}"
    return options.answer(receipt, final_view, error, silent=options.speech().quiet, title=title)


@options.command("rehearse")
def rehearse(dry_run: bool, **build: Any) -> int:
    """Prepare RECIPE as install does (sources, environment), run PyTorch's own configure step, and stop.

    The report shows the verdict of the XPU gate, the switches that CMake turned on and off, and the GPUs for
    which each group of SYCL files would be compiled. Nothing is compiled. An install in the same workspace
    keeps environment and sources, and configures again.
    """
    from xpubuild.install.rehearse import planned
    from xpubuild.install.rehearse import rehearse as run

    build["editable"] = False
    with options.interruptible() as cancel:
        prepared = _prepared(build, cancel)
        if dry_run:
            return _show_plan(planned(prepared), "table")
        with options.new_sink() as sink:
            try:
                report = run(prepared, sink=sink, cancel=cancel)
            except XpuBuildError as error:
                if error.document is None:
                    raise
                return options.answer(error.document, rehearsal_view, error, title="xpubuild rehearse")
    return options.answer(report, rehearsal_view, title="xpubuild rehearse")


@options.command("plan")
def plan(form: Any, matrix: tuple[str, ...], output: Path | None, **build: Any) -> int:
    """Show what install would do for RECIPE, without building; only sources that it patches are fetched."""
    if form in ("slurm", "pbs"):
        from xpubuild.jobs.asked import planned_jobs
        from xpubuild.jobs.render import KINDS

        # What [jobs] says is for every kind.
        settings = options.configuration().merged
        nodes: dict[str, Any] = {kind: settings(("jobs",), ("jobs", kind)) for kind in KINDS}
        words = (sys.executable, "-m", "xpubuild")
        cache = os.environ.get("XDG_CACHE_HOME", "")
        document = planned_jobs(
            _asked(build), form, matrix, output, settings=nodes, xpubuild=words, cache=cache
        )
        return options.answer(document, planned_jobs_view)
    if matrix or (output and form != "sh"):
        raise click.UsageError("--matrix is for --format slurm and pbs, --output for these and sh")
    return _show_plan(_prepared(build), form, output=output)


def _show_plan(prepared: Prepared, form: str, until: str | None = None, output: Path | None = None) -> int:
    """Print a plan, up to the step ``until``, with the state of its steps and what would stop an install.

    A script is written to ``output`` where it is given, and the hashes of its packages into a file beside it.
    """
    from xpubuild.engine.runner import needed_for
    from xpubuild.install.estimate import estimates
    from xpubuild.install.install import foreseen
    from xpubuild.install.kept import with_stores
    from xpubuild.install.script import files_of, script
    from xpubuild.workspace.status import plan_document, standing

    plan = replace(prepared.plan, steps=needed_for(prepared.plan, until))
    as_json = form == "json" or options.speech().as_json
    if form == "sh" and not as_json:
        if output is None:
            write_out(script(plan))
            return 0
        beside = output.with_name(f"{output.name}.files")
        write_atomic(beside, files_of(plan).encode())
        write_atomic(output, script(plan, beside.name).encode())
        write_out(f"bash {shlex.quote(str(output))} [WORKSPACE]; it reads {beside.name}\n")
        return 0
    plan, states = standing(plan)
    todo = [name for name, state in states.items() if not state.done]
    plan = with_stores(replace(prepared, plan=plan), set(states).difference(todo)).plan
    obstacles = foreseen(prepared, todo, Cancel())
    guesses = estimates(replace(prepared, plan=plan), todo)
    if as_json:
        print_json(plan_document(plan, states, obstacles, guesses))
        return 0
    words = {}
    for step in plan.steps:
        state, kept = states[step.id], step.keeper.describe() if step.keeper is not None else ""
        reasons = "; ".join(filter(None, (state.reason, "" if state.done else kept)))
        words[step.id] = ("done" if state.done else "to do") + (f": {reasons}" if reasons else "")
    show(plan_view(plan, words, obstacles, guesses))
    return 0


@options.command("lock")
def lock(output: str | None, sbom: Path | None, **build: Any) -> int:
    """Record every input of a build of RECIPE: commits, submodules, hashes, flags, this machine.

    Some inputs are only known from the sources, so the sources are fetched into the user's cache. Commit the
    lock next to your recipe; 'xpubuild check LOCK' checks it and 'xpubuild install --locked' builds from it.
    """
    from xpubuild.install.attest import of_lock
    from xpubuild.install.conda_environment import file_name
    from xpubuild.install.lock import make_lock
    from xpubuild.install.lock_file import dump, write_lock
    from xpubuild.install.resolve import prepare

    speech = options.speech()
    if output == "-" and speech.as_json:
        raise UsageError("--json and '-o -' both write to standard output", fix="use --output FILE")
    report = fetch_progress(quiet=speech.quiet)
    with options.interruptible() as cancel:
        prepared = prepare(_asked(build, report=report), cancel=cancel)
        made = make_lock(prepared, report=report, cancel=cancel)
    if sbom is not None:
        write_json(sbom, of_lock(made))
    if output == "-":
        write_out(dump(made))
        return 0
    path = Path(output or f"{made.name}.lock.yaml").expanduser().absolute()
    document, problem = write_lock(made, path)
    if prepared.target.conda_lock is not None:
        # The lock names the packages; their addresses are in conda-lock's own file, which the tools read.
        write_atomic(path.with_name(file_name(made.name)), prepared.target.conda_lock.encode())
    if problem:
        report(f"the existing file is replaced: {problem}")
    if not speech.quiet:
        show(differences_view(document["differences"], "Changed"), sys.stderr)
    return options.answer(document, lock_written_view, silent=speech.quiet)


@options.command("fetch")
def fetch(for_python: str | None, mirror: Any, offline: bool, **build: Any) -> int:
    """Download all sources and packages of RECIPE (a name, a file or a lock) into the folder --mirror DIR.

    Valid files are kept, damaged ones are downloaded again. 'xpubuild install --offline --mirror DIR' then
    builds without a network; 'xpubuild check DIR' hashes what is there.
    """
    from xpubuild.install.fetch import Fetch, wanted
    from xpubuild.install.options import Options
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git

    if not isinstance(mirror, Path):
        shown = f"not {mirror}: a mirror on a server is read-only" if mirror else "as --mirror DIR"
        raise UsageError(
            f"fetch needs the folder of a mirror, {shown}",
            fix="pass --mirror DIR (or set XPUBUILD_MIRROR); copy what is in it with rsync",
            commands=("xpubuild fetch RECIPE --mirror DIR",),
        )
    with options.interruptible() as cancel, options.new_sink() as sink:
        git = Git.open()
        stocks = () if build["update"] and not offline else (mirror,)
        store = RepositoryStore(mirror, git, offline=offline, stocks=stocks, cancel=cancel)
        found = wanted(Options(**build), for_python, store=store, cancel=cancel)
        document = Fetch(mirror, found, sink, cancel, offline=offline, git=git).run()
    return options.answer(document, fetch_view, silent=options.speech().quiet)


@options.command("image")
def image(
    base: str, form: Format, program: Path | None, output: str | None, build_it: bool, tag: str | None,
    builder_options: tuple[str, ...], **build: Any,
) -> int:  # fmt: skip
    """Write an image that builds and verifies RECIPE, and contains the result without compilers.

    After -- come options for the builder: '--build -- --secret id=pip,src=pip.conf'.
    """
    from xpubuild.images.make import rendered
    from xpubuild.install.options import Options

    if not build_it and (tag or builder_options):
        raise UsageError("--tag and what follows -- are for --build", fix="add --build")
    file = None if output in (None, "-") else Path(str(output)).expanduser().absolute()
    built = None
    with options.interruptible() as cancel:
        made = rendered(Options(**build), base, form, program)
        if file is not None:
            made.write(file)
        if build_it:
            with options.new_sink() as sink:
                built = made.build(file, cancel, sink, tag=tag, more=builder_options)
    speech = options.speech()
    if file is None and built is None and not speech.as_json:
        write_out(made.text)
        warn("this copies files that --output puts beside it")
        return 0
    return options.answer(made.document(file, built), image_view, silent=speech.quiet)
