"""``xpubuild migrate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpubuild import __version__
from xpubuild.cli import options
from xpubuild.cli.workspace import WORDS, CommandAfterDashes, workspace_of
from xpubuild.engine.files import explained, write_atomic
from xpubuild.errors import UsageError
from xpubuild.ui.console import json_text, write_out
from xpubuild.ui.migrate_views import migrate_view, proof_view
from xpubuild.ui.terminal import clean

if TYPE_CHECKING:
    from xpubuild.migrate.rules import Target


@options.command("migrate", CommandAfterDashes)
def migrate(
    paths: tuple[str, ...], to: Target, torch: str | None, python: str | None, values: bool, write: bool,
    patch: Path | None, check: bool, baseline: Path | None, update_baseline: bool, sarif: Path | None,
    prove: bool, workspace: Path | None, stand_in: bool,
) -> int:  # fmt: skip
    """Rewrite programs for CUDA so that they run on XPU: Python, notebooks, shell, YAML, container files.

    Without --write the difference is printed and no file changes. Calls of torch.cuda become those of
    torch.accelerator or, with --to xpu, torch.xpu; none is written that the chosen torch does not have. What
    has no counterpart is left and listed with its line, the reason and an alternative. The exit code is 80
    if such findings are left.

    With --prove, COMMAND runs in a workspace or with --python, and what it did on the device is reported.
    """
    if prove:
        more = bool(paths or write or check or patch or sarif or baseline or update_baseline)
        return _prove(python, workspace, stand_in=stand_in, more=more)
    from xpubuild.migrate import run
    from xpubuild.migrate.rules import rules_for

    if click.get_current_context().meta[WORDS]:
        raise UsageError("a command needs --prove", fix="pass --prove, or omit what is behind --")
    if not paths:
        raise UsageError("no path was passed", fix="pass files or folders", commands=("xpubuild migrate .",))
    if update_baseline and baseline is None:
        raise UsageError("--update-baseline needs --baseline", fix="pass --baseline FILE")
    rules = rules_for(to, torch, python)
    named = [Path(path).expanduser().absolute() for path in paths]
    files = dict.fromkeys(run.files_of(named, values=values))  # a file may be named beside its folder
    changes = [run.change_of(path, rules, values=values) for path in files]
    changed = [item for item in changes if item.after.text != item.before]
    accepted = run.read_baseline(baseline) if baseline and not update_baseline else frozenset[str]()
    document = run.document_of(changes, rules, accepted, written=write)
    if patch is not None:
        run.write_patch(patch, changed)
    if sarif is not None:
        with explained(sarif, "writing it"):
            write_atomic(sarif, json_text(run.sarif_of(document, __version__)).encode())
    if write:
        run.write(changed)
    if baseline is not None and update_baseline:
        run.write_baseline(baseline, document)
        document = run.document_of(changes, rules, run.read_baseline(baseline), written=write)
    speech = options.speech()
    if not speech.as_json and not speech.quiet and not write and patch is None:
        write_out(clean("".join(map(run.patch_of, changed))))
    return options.answer(document, migrate_view, run.verdict(document, check=check), silent=speech.quiet)


def _prove(python: str | None, workspace: Path | None, *, stand_in: bool, more: bool) -> int:
    """Run the command behind -- with trip-wires; ``more``: something else was requested too."""
    from xpubuild.migrate.prove import prove, verdict_of
    from xpubuild.verify.target import resolve_target

    if more:
        raise UsageError(
            "--prove runs a command and rewrites nothing",
            fix="rewrite first, then prove",
            commands=("xpubuild migrate PATH --write", "xpubuild migrate --prove -- COMMAND"),
        )
    root = None if python is not None else workspace_of(None, workspace)
    target = resolve_target(python, root, "xpu", stand_in=stand_in)
    words = click.get_current_context().meta[WORDS]
    with options.interruptible() as cancel:
        proof = prove(words, target, on_line=lambda line: click.echo(clean(line), err=True), cancel=cancel)
    sys.stderr.flush()
    return options.answer(proof, proof_view, verdict_of(proof))
