"""``xpubuild env``."""

from __future__ import annotations

import os
from pathlib import Path

from xpubuild.cli import options


@options.command("env")
def command(recipe: str | None, workspace: Path | None, form: str, depends_on: tuple[str, ...]) -> int:
    """Print what activates WORKSPACE: a folder, or the recipe that was built there.

    For bash, zsh and ksh: eval "$(xpubuild env)". For fish: xpubuild env --format fish | source. For csh:
    eval "`xpubuild env --format csh`".
    """
    from xpubuild.cli.configuration import of_caller
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.machine.shell_lines import bash_lines, csh_lines, fish_lines
    from xpubuild.ui.console import print_json, write_out
    from xpubuild.workspace.activation import assignments, difference, read_receipt
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
