"""``xpubuild verify``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import names, options

#: Options that only some suites read.
_OF_SUITES = {
    "source": ("dynamo", "upstream"),
    "models": ("dynamo",),
    "tests": ("upstream",),
    "operators": ("operators",),
    "minutes": ("operators",),
    "results": ("operators",),
}


@click.command(name="verify", short_help="Test an installed PyTorch on the device.")
@click.argument("recipe", required=False, shell_complete=names.workspaces, metavar="[WORKSPACE]")
@options.workspace_option()
@options.option(
    "--python", "python", default=None, metavar="EXE", help="Interpreter with the torch to verify."
)
@options.option(
    "--device",
    type=click.Choice(["xpu", "cuda", "cpu"]),
    default=None,
    help="Device to test (default: the target of the workspace; xpu with --python).",
)
@options.option(
    "--stand-in", "stand_in", is_flag=True, envvar=None,
    help="Run the kernels for XPU on Intel's OpenCL CPU device, without a GPU; the report says so.",
)  # fmt: skip
@options.option(
    "--suite",
    type=click.Choice(["smoke", "full", "speed", "dynamo", "upstream", "operators"]),
    default="smoke",
    show_default=True,
    help="Which tests to run: smoke takes about a minute; dynamo and upstream run PyTorch's own scripts,"
    " operators its operator database.",
)
@options.option(
    "--no-gpu",
    "no_gpu",
    is_flag=True,
    help="Run only the checks that need no device ('image' in --list), as in an image build.",
    envvar=None,
)
@options.path_option(
    "--source",
    default=None,
    help="Source tree of PyTorch for dynamo and upstream (default: that of the workspace).",
    envvar=None,
)
@options.path_option(
    "--data", metavar="DIR", default=None, envvar=None,
    help="Folder of JPEG and PNG files for vision.files (default: it writes some).",
)  # fmt: skip
@options.names_option("--models", help="Models for dynamo (default: a few per suite).", envvar=None)
@options.names_option("--tests", help="Test files for upstream (default: a selection).", envvar=None)
@options.names_option("--operators", help="Operators for the suite operators (default: all).", envvar=None)
@options.option(
    "--minutes", type=click.FloatRange(min=0, min_open=True), default=None, metavar="N", envvar=None,
    help="Start no operator of the suite operators after N minutes; the most used run first.",
)  # fmt: skip
@options.path_option(
    "--results", metavar="DIR", default=None, envvar=None,
    help="Folder for the table of operators; what is in it is not run again (default: in the workspace).",
)  # fmt: skip
@options.path_option(
    "--baseline", metavar="FILE", default=None, envvar=None,
    help="Warn about speeds below those in FILE; operators that passed there must pass.",
)  # fmt: skip
@options.option(
    "--update-baseline",
    is_flag=True,
    help="Write the speeds or operators of this run to the --baseline file.",
    envvar=None,
)
@options.names_option(
    "--only",
    shell_complete=names.verify_checks,
    help="Run only these checks: ids, groups or patterns.",
    envvar=None,
)
@options.names_option(
    "--skip",
    shell_complete=names.verify_checks,
    help="Skip these checks: ids, groups or patterns.",
    envvar=None,
)
@options.names_option(
    "--require",
    help="Optional components that must be present and pass: ops, vision, audio, triton.",
    envvar=None,
)
@options.option("--list", "list_", is_flag=True, help="List the checks and exit.", envvar=None)
@options.path_option(
    "--junit", metavar="FILE", default=None, help="Write a JUnit report to this file.", envvar=None
)
@options.path_option(
    "--output", metavar="FILE", default=None, help="Write the JSON report to this file.", envvar=None
)
@options.json_option
@options.speech("quiet", quiet=options.RESULT)
def command(
    recipe: str | None,
    workspace: Path | None,
    python: str | None,
    device: str | None,
    stand_in: bool,
    suite: str,
    no_gpu: bool,
    source: Path | None,
    data: Path | None,
    models: tuple[str, ...],
    tests: tuple[str, ...],
    operators: tuple[str, ...],
    minutes: float | None,
    results: Path | None,
    baseline: Path | None,
    update_baseline: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    require: tuple[str, ...],
    list_: bool,
    junit: Path | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run the test suite with the interpreter of WORKSPACE (a folder, or the recipe that was built
    there; default: the active or the only one), or with --python.

    Exits with code 70 if a check failed, crashed or timed out. What is installed in a workspace is hashed
    first (exit code 60 if it is damaged).
    """
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.engine.lock import require_free
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.engine.temporary import scratch_folder
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.run_views import CheckPrinter, verify_summary_view, verify_view
    from xpubuild.ui.step_summary import summarise
    from xpubuild.verify import baseline as speeds
    from xpubuild.verify.catalogue import select
    from xpubuild.verify.harness import run_suite
    from xpubuild.verify.reports import failure, require_places, write_reports
    from xpubuild.verify.target import check_options, resolve_target
    from xpubuild.workspace.check import require_installed
    from xpubuild.workspace.layout import Layout

    if list_:
        return _list(as_json)
    given = _given(suite, no_gpu=no_gpu)
    if no_gpu:
        device, suite = "cpu", "image"
    root = None if python else workspace_of(recipe, workspace)
    if root is not None:
        require_free(root)
    target = resolve_target(python, root, device, stand_in=stand_in)
    compared = None if update_baseline else baseline
    earlier = speeds.before(baseline, update=update_baseline)
    folder = results or (Layout(root).verify_operators if root else None)
    require_places(output, junit, results and results / "operators.json")
    chosen = select(device=target.device, suite=suite, only=only, require=require, skip=skip)
    printer = CheckPrinter(total=len(chosen), quiet=quiet)
    cancel = Cancel()
    if root is not None:
        with cancel_on_signals(cancel):
            require_installed(root, cancel)
    with cancel_on_signals(cancel), scratch_folder("verify") as scratch:
        report = run_suite(
            target.python,
            device=target.device,
            env=target.env,
            work=scratch,
            suite=suite,
            only=only,
            skip=skip,
            require=require,
            emit=printer.emit,
            progress=printer.progress,
            options=check_options(
                source or target.source,
                models,
                tests,
                data=data.absolute() if data else None,
                operators=",".join(operators),
                minutes=minutes,
                results=folder,
                accepted=compared,
            ),
            baseline=earlier,
            cancel=cancel,
            stand_in=target.stand_in,
        )
    document = report.to_json()
    summarise(f"xpubuild verify: {document['status']}", verify_summary_view(document))
    if not as_json:
        show(verify_view(document, quiet=quiet))
    if baseline and update_baseline:
        speeds.update(report, baseline)
    write_reports(report, json_file=output, junit_file=junit)
    error = failure(report, ("--workspace", str(root)) if root is not None else (), given)
    if error is not None:
        error.document = document
        raise error
    if as_json:
        print_json(document)
    return 0


def _given(suite: str, *, no_gpu: bool) -> list[str]:
    """Return the options that say how checks run, as they were given; one without effect is refused."""
    context = click.get_current_context()
    if context.params["update_baseline"] and context.params["baseline"] is None:
        raise click.UsageError("--update-baseline needs --baseline FILE")
    command_line = click.core.ParameterSource.COMMANDLINE
    asked = {
        param.name: str(param.opts[0])
        for param in context.command.params
        if param.name and context.get_parameter_source(param.name) == command_line
    }
    if no_gpu and "stand_in" in asked:
        raise click.UsageError("--no-gpu needs no device; it has no --stand-in")
    if no_gpu and "suite" in asked:
        raise click.UsageError("--no-gpu runs the checks of an image; it has no --suite")
    for name, suites in _OF_SUITES.items():
        if name in asked and (no_gpu or suite not in suites):
            raise click.UsageError(f"{asked[name]} has no effect without --suite {' or '.join(suites)}")
    if "only" in asked and not context.params["only"]:
        raise click.UsageError("--only is empty; name checks, or omit it")
    words = ["--stand-in"] if context.params["stand_in"] else []
    for name in (*_OF_SUITES, "data", "baseline", "require"):
        if name in asked:
            value = context.params[name]
            words += [asked[name], ",".join(value) if isinstance(value, tuple) else str(value)]
    return words


def _list(as_json: bool) -> int:
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.run_views import verify_checks_view
    from xpubuild.verify.catalogue import list_checks
    from xpubuild.verify.reports import checks_document

    listing = checks_document(list_checks())
    print_json(listing) if as_json else show(verify_checks_view(listing))
    return 0
