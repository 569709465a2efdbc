"""``xpubuild test`` and ``bisect``: what somebody who changes PyTorch does all day."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from xpubuild.cli import options
from xpubuild.cli.workspace import WORDS, CommandAfterDashes


@options.command("test", CommandAfterDashes)
def test(
    paths: tuple[str, ...], workspace: Path | None, python: str | None, device: str | None, stand_in: bool,
    source: Path | None, expression: str | None, accept: bool, junit: Path | None,
) -> int:  # fmt: skip
    """Run upstream's tests with the interpreter of a workspace, or with --python.

    PATHS are files, folders or node ids of pytest in PyTorch's tree, such as test/test_nn.py. Without any:
    the tests of torch-xpu-ops, but for those that its lists for this release leave out, and what PyTorch
    has for the device. benchmarks/dynamo/huggingface.py, or another script there, checks models; -k names
    some.

    Exits with code 70 if a test fails that did not in the accepted run, or if nothing ran.
    """
    import platformdirs

    from xpubuild.cli.workspace import workspace_of
    from xpubuild.engine.files import write_atomic
    from xpubuild.engine.fingerprint import digest
    from xpubuild.errors import UsageError
    from xpubuild.ui.console import summarise
    from xpubuild.ui.run_views import test_view
    from xpubuild.verify.reports import require_places
    from xpubuild.verify.target import resolve_target
    from xpubuild.workspace import upstream_tests
    from xpubuild.workspace.layout import Layout
    from xpubuild.workspace.upstream_selection import select

    root = None if python else workspace_of(None, workspace)
    target = resolve_target(python, root, device, stand_in=stand_in)
    own = platformdirs.user_data_path("xpubuild") / "tests" / digest(str(target.python))[:12]
    place = Layout(root).tests if root is not None else own
    require_places(junit)
    if accept and not paths and expression is None:
        return options.answer(upstream_tests.accept(place), test_view)
    tree = source or target.source
    if tree is None:
        raise UsageError("there is no source tree with tests", fix="pass the tree of PyTorch with --source")
    units = select(tree, paths, target.device, expression or "")
    quiet = options.speech().quiet

    def tell(line: str) -> None:
        if not quiet:
            sys.stderr.write(f"{line}\n")

    with options.interruptible() as cancel:
        run = upstream_tests.UpstreamTests(
            target.python, target.device, target.env, tree, place, cancel, tell, expression or "",
            click.get_current_context().meta[WORDS],
        )  # fmt: skip
        document = run.run(units)
    if accept and set(document["summary"]) - {"skipped"}:
        document = upstream_tests.accept(place)
    if junit is not None:
        write_atomic(junit, upstream_tests.junit_report(document))
    again = (
        ["--workspace", str(root)]
        if root is not None
        else ["--python", str(python), "--device", target.device]
    )
    again += [*(["--source", str(source)] if source else []), *(["--stand-in"] if stand_in else [])]
    error = upstream_tests.failure(document, ["xpubuild", "test", *again])
    summarise(f"xpubuild test: {document['status']}", test_view(document))
    return options.answer(document, test_view, error)
