"""``xpubuild verify``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options
from xpubuild.cli.workspace import workspace_of
from xpubuild.ui.console import summarise
from xpubuild.ui.run_views import CheckPrinter, verify_checks_view, verify_summary_view, verify_view
from xpubuild.verify import catalogue
from xpubuild.workspace.layout import Layout

if TYPE_CHECKING:
    from xpubuild.engine.process import Cancel
    from xpubuild.errors import XpuBuildError
    from xpubuild.verify.baseline import Baseline
    from xpubuild.verify.model import VerifyReport
    from xpubuild.verify.target import Target

#: What ``install --bundle`` runs on the device after the build.
SUITES_OF_BUNDLE = ("full", "speed")
#: Options that the suite operators alone reads.
_OF_OPERATORS = ("operators", "minutes", "results")
#: Those of the suite distributed.
_OF_NODES = ("nodes", "launcher")


@options.command("verify")
def verify(
    recipe: str | None, workspace: Path | None, python: str | None, device: str | None, stand_in: bool,
    suite: str, no_gpu: bool, only: tuple[str, ...], skip: tuple[str, ...], require: tuple[str, ...],
    baseline: Path | None, update_baseline: bool, list_: bool, junit: Path | None, output: Path | None,
    **of_checks: Any,
) -> int:  # fmt: skip
    """Run the test suite with the interpreter of WORKSPACE (a folder, or the recipe that was built
    there; default: the active or the only one), or with --python.

    Exits with code 70 if a check failed, crashed or timed out. What is installed in a workspace is hashed
    first (exit code 60 if it is damaged).
    """
    from xpubuild.engine.lock import require_free
    from xpubuild.verify import baseline as speeds
    from xpubuild.verify.launch import launched, of_the_job
    from xpubuild.verify.reports import checks_document, failure, require_places, write_reports
    from xpubuild.verify.target import resolve_target
    from xpubuild.workspace.check import require_installed

    if list_:
        return options.answer(checks_document(catalogue.list_checks()), verify_checks_view)
    given, quiet = _given(suite, no_gpu=no_gpu), options.speech().quiet
    if no_gpu:
        device, suite = "cpu", "image"
    far = launched(of_checks["nodes"], of_checks["launcher"], os.environ)
    root = None if python else workspace_of(recipe, workspace)
    if root is not None:
        require_free(root)
    target = resolve_target(python, root, device, stand_in=stand_in)
    if far:
        target = replace(target, env={**of_the_job(os.environ), **target.env})
    earlier = speeds.before(baseline, update=update_baseline)
    results = of_checks["results"]
    require_places(output, junit, results and results / "operators.json")
    require, own = _of_components(require, root)
    of_them = {
        "data": of_checks["data"], "operators": ",".join(of_checks["operators"]),
        "minutes": of_checks["minutes"],
        "results": results or (Layout(root).verify_operators if root else None),
        "accepted": None if update_baseline else baseline, **own, **far,
    }  # fmt: skip
    with options.interruptible() as cancel:
        if root is not None:
            require_installed(root, cancel)
        report = run_told(
            target, suite, cancel, quiet=quiet, only=only, skip=skip, require=require, baseline=earlier,
            given={name: str(value) for name, value in of_them.items() if value},
        )  # fmt: skip
    document = report.to_json()
    summarise(f"xpubuild verify: {document['status']}", verify_summary_view(document))
    if baseline and update_baseline:
        speeds.update(report, baseline)
    write_reports(report, json_file=output, junit_file=junit)
    error = failure(report, ("--workspace", str(root)) if root is not None else (), given)
    return options.answer(document, lambda found: verify_view(found, quiet=quiet), error)


def _of_components(require: Sequence[str], root: Path | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Declare the checks that components bring; return the parts that are required, and options of the suite.

    A word is the name of a part, or of a component with a check: in the workspace, or in its own file. What
    install passes is the path of such a check.

    Raises:
        UsageError: the component has none, or the file has no check.
        RecipeError: the component's own file is not right.
    """
    from xpubuild.errors import UsageError
    from xpubuild.recipe.limits import Check
    from xpubuild.recipe.load import component_files, load
    from xpubuild.verify.suite import component, registry

    files, names, given = component_files(), list[str](), dict[str, str]()
    for word in require:
        path = Path(word) if os.sep in word else None
        name = path.stem if path is not None else word
        names.append(name)
        if path is None and root is not None and (kept := Layout(root).checks / f"{word}.json").is_file():
            path = kept
        if path is None and (name in registry.PARTS or name not in files):
            continue
        try:
            found = Check.model_validate_json(path.read_bytes()) if path is not None else None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{path} is not the check of a component", why=str(error),
                fix="pass the name of the component",
            ) from error  # fmt: skip
        found = found or load(str(files[name])).recipe.components[name].check
        if found is None:
            raise UsageError(
                f"the component '{name}' has no check that --require could run",
                why=f"{files[name]} has no components.{name}.check",
                fix="add one to it, or name another component",
            )
        component.declare(name, found.model_dump())
        given[component.OPTION + name] = found.model_dump_json()
    return tuple(names), given


def run_told(
    target: Target, suite: str, cancel: Cancel, *, quiet: bool, only: Sequence[str] = (),
    skip: Sequence[str] = (), require: Sequence[str] = (), baseline: Baseline | None = None,
    given: Mapping[str, str] | None = None,
) -> VerifyReport:  # fmt: skip
    """Run a suite and write each result to standard error as its check ends."""
    from xpubuild.engine.temporary import scratch_folder
    from xpubuild.verify.harness import run_suite

    chosen = catalogue.select(device=target.device, suite=suite, only=only, require=require, skip=skip)
    printer = CheckPrinter(total=len(chosen), quiet=quiet)
    with scratch_folder("verify") as scratch:
        return run_suite(
            target.python, device=target.device, env=target.env, work=scratch, suite=suite, only=only,
            skip=skip, require=require, emit=printer.emit, progress=printer.progress, baseline=baseline,
            cancel=cancel, stand_in=target.stand_in, options=given,
        )  # fmt: skip


def forget_suites(root: Path) -> None:
    """Remove what the suites reported of an earlier build."""
    for suite in SUITES_OF_BUNDLE:
        Layout(root).verify_suite(suite).unlink(missing_ok=True)


def run_suites(root: Path, cancel: Cancel, *, quiet: bool) -> XpuBuildError | None:
    """Run the suites in a workspace, on the device that it was built for, and keep their documents there.

    Returns the error of the first suite that failed.
    """
    from xpubuild.verify.reports import failure, write_reports
    from xpubuild.verify.target import resolve_target

    target, errors = resolve_target(None, root, None), []
    for suite in SUITES_OF_BUNDLE:
        report = run_told(target, suite, cancel, quiet=quiet)
        write_reports(report, json_file=Layout(root).verify_suite(suite), junit_file=None)
        errors.append(failure(report, ("--workspace", str(root))))
    return next(filter(None, errors), None)


def _given(suite: str, *, no_gpu: bool) -> list[str]:
    """Return the options that say how checks run, as they were given; one without effect is refused."""
    context = click.get_current_context()
    if context.params["update_baseline"] and context.params["baseline"] is None:
        raise click.UsageError("--update-baseline needs --baseline FILE")
    alone = suite == "operators" and not no_gpu
    foreign = {} if alone else dict.fromkeys(_OF_OPERATORS, "has no effect without --suite operators")
    if suite != "distributed":
        foreign |= dict.fromkeys(_OF_NODES, "has no effect without --suite distributed")
    image = "has no effect with --no-gpu, which runs the checks of an image"
    empty = {} if context.params["only"] else {"only": "is empty; name checks, or omit it"}
    options.refuse({**(dict.fromkeys(("stand-in", "suite"), image) if no_gpu else {}), **foreign, **empty})
    words = ["--stand-in"] if context.params["stand_in"] else []
    for name in (*_OF_OPERATORS, *_OF_NODES, "data", "baseline", "require"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            value = context.params[name]
            words += [
                f"--{name}",
                ",".join(value) if isinstance(value, tuple) else f"{value}".removesuffix(".0"),
            ]
    return words
