"""``xpubuild verify``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import options


@click.command(name="verify", short_help="Prove on the device that an installed torch works.")
@click.argument("recipe", required=False)
@options.workspace_option
@options.option(
    "--python", "python", default=None, metavar="EXE", help="Interpreter with the torch to verify."
)
@options.option(
    "--device",
    type=click.Choice(["xpu", "cuda", "cpu"]),
    default=None,
    help="Where to run (default: what the workspace was built for).",
)
@options.option(
    "--suite",
    type=click.Choice(["smoke", "full", "speed", "dynamo", "upstream"]),
    default="smoke",
    show_default=True,
    help="What to check: smoke answers within a minute; dynamo and upstream run PyTorch's own scripts.",
)
@options.option(
    "--no-gpu",
    "no_gpu",
    is_flag=True,
    help="Check what needs no device, as where images are built.",
    envvar=None,
)
@options.path_option(
    "--source",
    default=None,
    help="Tree of PyTorch for dynamo and upstream (default: the workspace's).",
    envvar=None,
)
@options.names_option("--models", help="Models for dynamo (default: a few per suite).", envvar=None)
@options.names_option("--tests", help="Test files for upstream (default: a chosen list).", envvar=None)
@options.path_option(
    "--baseline", metavar="FILE", default=None, help="Warn about speeds below those of FILE.", envvar=None
)
@options.option("--update-baseline", is_flag=True, help="Write this run's speeds to --baseline.", envvar=None)
@options.names_option("--only", help="Ids, groups or patterns of checks.", envvar=None)
@options.names_option(
    "--require", help="Optional parts whose absence is a failure, such as ops.", envvar=None
)
@options.option("--list", "list_", is_flag=True, help="List the checks and stop.", envvar=None)
@options.path_option("--junit", metavar="FILE", default=None, help="Also write a JUnit report.", envvar=None)
@options.path_option(
    "--output", metavar="FILE", default=None, help="Also write the JSON report.", envvar=None
)
@options.json_option
@options.quiet_option
def command(
    recipe: str | None,
    workspace: Path | None,
    python: str | None,
    device: str | None,
    suite: str,
    no_gpu: bool,
    source: Path | None,
    models: tuple[str, ...],
    tests: tuple[str, ...],
    baseline: Path | None,
    update_baseline: bool,
    only: tuple[str, ...],
    require: tuple[str, ...],
    list_: bool,
    junit: Path | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Run the suite inside the interpreter of a workspace (by default RECIPE's), or inside --python.

    Exit code 70 where a check failed, crashed or passed its deadline.
    """
    from xpubuild.cli.workspace import existing
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.verify_view import CheckPrinter, checks_view, verify_view
    from xpubuild.verify import baseline as speeds
    from xpubuild.verify.catalogue import list_checks, select
    from xpubuild.verify.harness import run_suite
    from xpubuild.verify.reports import checks_document, failure, write_reports
    from xpubuild.verify.scratch import scratch_folder
    from xpubuild.verify.target import check_options, resolve_target

    if list_:
        listing = checks_document(list_checks())
        print_json(listing) if as_json else show(checks_view(listing))
        return 0
    if update_baseline and baseline is None:
        raise click.UsageError("--update-baseline needs --baseline FILE")
    if no_gpu:
        device, suite = "cpu", "image"
    root = None if python else existing(workspace, recipe)
    target = resolve_target(python, root, device)
    earlier = speeds.read(baseline) if baseline and not update_baseline else None
    printer = CheckPrinter(total=len(select(device=target.device, suite=suite, only=only)), quiet=quiet)
    cancel = Cancel()
    with cancel_on_signals(cancel), scratch_folder() as scratch:
        report = run_suite(
            target.python,
            device=target.device,
            env=target.env,
            work=scratch,
            suite=suite,
            only=only,
            require=require,
            emit=printer.emit,
            options=check_options(source or target.source, models, tests),
            baseline=earlier,
            cancel=cancel,
        )
    if baseline and update_baseline:
        speeds.write(speeds.of_report(report), baseline)
    write_reports(report, json_file=output, junit_file=junit)
    document = report.to_json()
    if not as_json and not quiet:
        show(verify_view(document))
    error = failure(report, ("--workspace", str(root)) if root is not None else ())
    if error is not None:
        error.document = document
        raise error
    if as_json:
        print_json(document)
    return 0
