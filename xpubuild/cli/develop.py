"""``xpubuild test`` and ``bisect``: what somebody who changes PyTorch does all day."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from xpubuild.cli import options
from xpubuild.cli.configuration import of_caller
from xpubuild.cli.workspace import BEFORE, WORDS, CommandAfterDashes, workspace_of
from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import digest
from xpubuild.errors import UsageError
from xpubuild.ui.run_views import bisect_view, test_view
from xpubuild.workspace.activation import environment

#: Options of bisect by which a search is no other one.
_SHOWN = frozenset({"--json", "-q", "--quiet", "-v", "--verbose"})


@options.command("test", CommandAfterDashes)
def test(
    paths: tuple[str, ...], workspace: Path | None, python: str | None, device: str | None, stand_in: bool,
    source: Path | None, expression: str | None, accept: bool, junit: Path | None,
) -> int:  # fmt: skip
    """Run upstream's tests with the interpreter of a workspace, or with --python.

    PATHS are files, folders or node ids of pytest in PyTorch's tree, such as test/test_nn.py. Without any:
    the tests of torch-xpu-ops, except those that its lists for this release exclude, and what PyTorch
    has for the device. benchmarks/dynamo/huggingface.py, or another script there, checks models; -k names
    some.

    Exits with code 70 if a test fails that did not in the accepted run, or if nothing ran.
    """
    import platformdirs

    from xpubuild.engine.journal import Journal
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
    if root is not None:
        with Journal(Layout(root).journal) as journal:
            journal.add_made("test", [str(place)])
    with options.interruptible() as cancel:
        run = upstream_tests.UpstreamTests(
            target.python, target.device, target.env, tree, place, cancel,
            (lambda _: None) if options.speech().quiet else _tell, expression or "",
            click.get_current_context().meta[WORDS],
        )  # fmt: skip
        document = run.run(units)
    if accept and set(document["summary"]) - {"skipped"}:
        document = upstream_tests.accept(place)
    if junit is not None:
        write_atomic(junit, upstream_tests.junit_report(document))
    again = ["--workspace", str(root)] if root else ["--python", str(python), "--device", target.device]
    again += [*(["--source", str(source)] if source else []), *(["--stand-in"] if stand_in else [])]
    error = upstream_tests.failure(document, ["xpubuild", "test", *again])
    return options.answer(document, test_view, error, title=f"xpubuild test: {document['status']}")


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@options.command("bisect", CommandAfterDashes)
def bisect(
    recipe: str, workspace: Path | None, good: str | None, bad: str | None, component: str, **build: Any
) -> int:  # fmt: skip
    """Find the first commit of a component with which COMMAND fails, between --good and --bad.

    Each commit is built in one workspace, with the pins that belong to it; what was built before comes from
    the store of wheels and the compile cache. COMMAND runs in the environment of the workspace: 0 is good,
    125 skips the commit, all else is bad. A commit that does not build is skipped, with the reason. After an
    interruption the same command continues.

    Exits with code 70 if there is no one first bad commit.
    """
    from xpubuild.install.bisect import Bisection
    from xpubuild.install.install import apply, open_workspace
    from xpubuild.install.options import Options, default_workspace
    from xpubuild.install.resolve import prepare
    from xpubuild.recipe.load import load
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git

    context = click.get_current_context()
    command = context.meta[WORDS]
    if not command:
        raise UsageError("bisect needs a command", fix="put it behind --: xpubuild bisect ... -- COMMAND")
    if good is None or bad is None:
        raise UsageError("bisect needs two ends", fix="pass --good REV, where COMMAND passes, and --bad REV")
    if build["source_dir"] or build["allow_dirty"]:
        raise UsageError(
            "bisect builds commits, not your own tree or changes",
            fix="omit --source-dir and --allow-dirty (XPUBUILD_SOURCE_DIR, XPUBUILD_ALLOW_DIRTY)",
        )
    loaded = load(recipe, build["with_"])
    root = workspace or default_workspace(f"{loaded.recipe.name}-bisect")
    asked = {
        "good": good, "bad": bad, "component": component, "command": list(command),
        "cwd": str(Path.cwd()), "words": [word for word in context.meta[BEFORE] if word not in _SHOWN],
        "digest": digest(loaded.document),
    }  # fmt: skip

    with options.interruptible() as cancel:

        def install(file: Path) -> None:
            wanted = Options(str(file), root, **{**build, "quick": True}, telling=options.new_sink)
            prepared = prepare(wanted, cancel=cancel)
            with options.new_sink() as sink:
                apply(prepared, sink=sink, cancel=cancel)

        store = RepositoryStore(
            options.cache_folder(), Git.open(), offline=build["offline"],
            stocks=(build["mirror"],) if isinstance(build["mirror"], Path) else (), cancel=cancel,
        )  # fmt: skip
        search = Bisection(
            root, loaded, store, asked, install, lambda: environment(root, of_caller(os.environ)), cancel,
            _tell,
        )  # fmt: skip
        open_workspace(root)
        document = search.search()
    return options.answer(document, bisect_view, title="xpubuild bisect")
