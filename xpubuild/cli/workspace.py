"""``xpubuild status``, ``env``, ``run`` and ``clean``, and how the workspace that is meant is found."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from pathlib import Path

import click

from xpubuild.cli import options
from xpubuild.cli.configuration import of_caller
from xpubuild.engine.files import write_atomic
from xpubuild.errors import ToolchainError, UsageError, did_you_mean
from xpubuild.ui.console import print_json, show, warn, write_out
from xpubuild.ui.run_views import how_called
from xpubuild.ui.views import clean_view, jobs_view, overview_view, report_view, status_view
from xpubuild.workspace.activation import ENTERED, assignments, difference, environment, read_receipt

_JOURNAL = "journal.db"
#: Keys of a context's meta: the words behind ``--``, and those before it.
WORDS, BEFORE = f"{__name__}.words", f"{__name__}.before"


def workspace_of(given: str | None, workspace: Path | None = None) -> Path:
    """Return the workspace that ``given`` names: its folder or the recipe that was built there.

    Where nothing is named it is the active one, or the only one.

    Raises:
        UsageError: nothing was installed there, or there are several.
        ToolchainError: it cannot be entered.
    """
    from xpubuild.install.options import default_workspace
    from xpubuild.recipe.load import load
    from xpubuild.workspace.moved import made_in, origin, place_of

    is_file = given is not None and given.endswith((".yaml", ".yml"))
    if given and ((os.sep in given and not is_file) or Path(given, _JOURNAL).is_file()):
        workspace = workspace or Path(given).expanduser().absolute()
        given = None
    if workspace is None and given is None:
        entered = os.environ.get(ENTERED)
        workspace = Path(entered) if entered else _only_one()
    root = workspace or default_workspace(load(str(given)).recipe.name if is_file else str(given))
    if not _has_journal(root):
        known = () if workspace else (path.name for path in root.parent.glob("*") if _has_journal(path))
        why = f"the folder has no {_JOURNAL}, in which xpubuild records what it made"
        why = why if root.is_dir() else "the folder does not exist"
        raise UsageError(
            f"there is no workspace at {root}",
            why=why + did_you_mean(root.name, sorted(known)),
            fix="pass the folder of a workspace; 'xpubuild install' creates workspaces",
            commands=() if workspace else ("xpubuild status --all",),
        )
    root = place_of(root)
    if (old := made_in(root)) is not None:
        # Scripts of its environment may start the interpreter of the workspace that it was copied from.
        warn(origin(old))
    return root


def _has_journal(root: Path) -> bool:
    try:
        return (root / _JOURNAL).is_file()
    except PermissionError as error:
        owner = ""
        for folder in (root, *root.parents):
            with contextlib.suppress(OSError, KeyError):
                owner = owner or f"; {folder} belongs to {folder.owner()}"
        raise ToolchainError(
            f"the workspace {root} cannot be entered",
            why=f"{error.filename}: {error.strerror}{owner}",
            fix="ask its owner to let you read it, or install a workspace of your own",
            commands=(f"ls -ld {shlex.quote(str(root))}",),
        ) from error


def _only_one() -> Path:
    """Return the one workspace below the default folder; a guess among several could remove the wrong one."""
    folder, found = options.workspaces_folder(), options.installed()
    if len(found) == 1:
        return folder / found[0]
    if found:
        raise UsageError(
            f"several workspaces exist: {', '.join(found)}",
            why=f"they are in {folder}, and neither a recipe nor a folder was passed",
            fix="name one: a recipe that has a workspace there, or the folder of the workspace",
        )
    raise UsageError(
        f"no workspace exists in {folder}",
        why="nothing was installed there",
        fix="pass the folder of a workspace; 'xpubuild install' creates workspaces",
        commands=("xpubuild install quickstart",),
    )


@options.command("status")
def status(
    recipe: str | None, workspace: Path | None, all_: bool, jobs: Path | None, html: str | None,
    junit: Path | None,
) -> int:  # fmt: skip
    """Show the steps, runs and results of WORKSPACE: a folder, or the recipe that was built there.

    The page of --html needs no network and no other file, and has no secrets. With --json, --html
    prints the document of the page; with --html - no page is written then.
    """
    from xpubuild.engine.journal import Journal
    from xpubuild.engine.lock import held_by
    from xpubuild.workspace.overview import overview_document
    from xpubuild.workspace.status import status_document

    if jobs is not None:
        from xpubuild.jobs.status import jobs_document, junit_report

        of_jobs = jobs_document(jobs)
        if junit is not None:
            write_atomic(junit, junit_report(of_jobs))
        return options.answer(of_jobs, jobs_view)
    if junit is not None:
        raise UsageError("--junit is of --jobs alone", why="a workspace has no cells", fix="pass --jobs DIR")
    if all_:
        entered = os.environ.get(ENTERED)
        active = Path(entered) if entered else None
        found = overview_document(options.workspaces_folder(), options.cache_folder(), active)
        return options.answer(found, overview_view)
    root = workspace_of(recipe, workspace)
    if html is not None:
        return _page(root, html)
    with Journal(root / _JOURNAL, read_only=True) as journal:
        document = status_document(str(root), journal, held_by(root))
    return options.answer(document, status_view)


def _page(root: Path, html: str) -> int:
    from xpubuild.cli.report_json import unfit
    from xpubuild.ui.report.page import page
    from xpubuild.workspace.report import report_document

    document = report_document(root, unfit)
    if html == "-" and not options.speech().as_json:
        write_out(page(document))
        return 0
    file = Path(html).expanduser().absolute()
    if html != "-":
        write_atomic(file, page(document).encode())
    return options.answer(document, lambda found: report_view(found, file))


@options.command("env")
def env(recipe: str | None, workspace: Path | None, form: str, depends_on: tuple[str, ...]) -> int:
    """Print the shell commands that activate WORKSPACE: a folder, or the recipe that was built there.

    For bash, zsh and ksh: eval "$(xpubuild env)". For fish: xpubuild env --format fish | source. For csh:
    eval "`xpubuild env --format csh`".
    """
    from xpubuild.machine.shell_lines import bash_lines, csh_lines, fish_lines
    from xpubuild.workspace.modulefile import modulefile

    root = workspace_of(recipe, workspace)
    if options.speech().as_json or form == "json":
        changes = difference(root, read_receipt(root)).to_json()
        values = assignments(root, of_caller(os.environ))
        print_json({"schema": "xpubuild.env/1", "workspace": str(root), "env": values, "changes": changes})
        return 0
    if form in ("lmod", "tcl"):
        text = modulefile(root, read_receipt(root), form, depends_on)
    else:
        write = {"fish": fish_lines, "csh": csh_lines}.get(form, bash_lines)
        text = write(assignments(root, of_caller(os.environ)))
    # A value of the environment may hold bytes that are no UTF-8: they go out as they came in.
    write_out(text.encode("utf-8", "surrogateescape"))
    return 0


class CommandAfterDashes(options.Command):
    """A command whose words after ``--`` are another program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows ``--`` away from click."""
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[WORDS], ctx.meta[BEFORE] = tuple(args[place + 1 :]), tuple(args[:place])
        try:
            return super().parse_args(ctx, args[:place])
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            raise click.UsageError(f"put -- before the command: {ctx.get_usage()[7:]}", ctx) from error


@options.command("run", CommandAfterDashes)
def run(recipe: str | None, workspace: Path | None, stand_in: bool) -> int:
    """Run COMMAND in the environment of WORKSPACE: a folder, or the recipe that was built there.

    Without WORKSPACE: the active workspace, or the only one. There is no shell in between: COMMAND gets the
    signals, and its exit status is that of xpubuild. Without COMMAND, your shell is started: it reads its own
    settings first, shows the name of the workspace before its prompt, and 'exit' leaves it.
    """
    from xpubuild.engine.child import become
    from xpubuild.verify.target import on_stand_in
    from xpubuild.workspace.activation import start, users_shell

    words: tuple[str, ...] = click.get_current_context().meta[WORDS]
    root = workspace_of(recipe, workspace)
    values = environment(root, of_caller(os.environ))
    if stand_in:
        values = on_stand_in(root, values)
    if words:
        become(words, values)
    become(*start(users_shell(values), root, how_called(), values, asks=sys.stdin.isatty()))


@options.command("clean")
def clean(
    recipe: str | None, workspace: Path | None, steps: tuple[str, ...], caches: bool, dry_run: bool,
    yes: bool,
) -> int:  # fmt: skip
    """Remove the files that xpubuild made in a workspace. Your changes in src/ are kept.

    Asks first. Where nobody can be asked, as in a script, --yes is required.
    """
    from xpubuild.workspace.clean import plan_caches, plan_clean, remove, remove_caches
    from xpubuild.workspace.overview import disk_usage

    cache = options.cache_folder()
    if caches:
        if workspace is not None or recipe is not None or steps:
            raise click.UsageError("--caches stands alone: no workspace, recipe or --step")
        removal, words = plan_caches(options.workspaces_folder(), cache), "--caches"
    else:
        root = workspace_of(recipe, workspace)
        removal, words = plan_clean(root, steps), f"--workspace {shlex.quote(str(root))}"
    if not dry_run and (removal["removed"] or not caches):
        found = f"{len(removal['removed'])} items from {removal['workspace']}"
        if not yes:
            show(clean_view(removal), sys.stderr)
        if yes or options.may_remove(found, f"xpubuild clean {words}"):
            removal = remove_caches(removal) if caches else remove(root, steps)
        elif options.speech().as_json:
            removal = {**removal, "removed": [], "steps": [], "kept": []}
        else:
            sys.stdout.write("nothing removed\n")
            return 0
    removal["dry_run"] = dry_run
    if not caches and not steps and cache.is_dir():
        removal["cache"], removal["cache_bytes"] = str(cache), disk_usage(cache)
    return options.answer(removal, clean_view)
