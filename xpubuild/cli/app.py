"""The top of the command tree: imports click and nothing heavier; a command is imported when it runs."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import click
from click.core import ParameterSource

from xpubuild import __version__
from xpubuild.cli.commands import COMMANDS
from xpubuild.engine.environment import ERROR_FILE, usable_path
from xpubuild.engine.redact import Redactor
from xpubuild.errors import InterruptedByUserError, UsageError, XpuBuildError, did_you_mean

_OF_THE_SHELL = frozenset({"env", "run"})
_TOP = [name for name in COMMANDS if " " not in name]


class LazyGroup(click.Group):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of COMMANDS."""
        return _TOP

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command."""
        if cmd_name not in _TOP:
            return None
        module = importlib.import_module(f"xpubuild.cli.{COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the command list without importing any of them."""
        rows = [(name, COMMANDS[name].help) for name in _TOP if name != "plumbing"]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for a misspelt one."""
        if args and args[0] not in _TOP and not args[0].startswith("-"):
            hint = did_you_mean(args[0], _TOP).removeprefix("; ").capitalize()
            ctx.fail(f"No such command '{args[0]}'. {hint}".rstrip())
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="xpubuild", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Build and verify PyTorch for Intel XPU from source.

    To start, run 'xpubuild plan quickstart', then 'xpubuild install quickstart'.
    """
    # Relative elements are taken out of PATH for this process and all that it starts. But what these print or
    # run is for the user's own shell, whose PATH it is.
    path, ignored = usable_path(os.environ.get("PATH", os.defpath))
    if not ignored or ctx.invoked_subcommand in _OF_THE_SHELL:
        return
    os.environ["PATH"] = path
    from xpubuild.ui.console import warn

    elements = ", ".join(f"'{element}'" for element in dict.fromkeys(ignored))
    warn(
        f"PATH has elements that depend on the current folder ({elements}): they are ignored, because a"
        " program there could take the place of a compiler or of git"
    )


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; every failure a user can cause ends here, as text."""
    try:
        result: Any = cli.main(args=list(arguments), prog_name="xpubuild", standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        why = _variable(error)
        _document(UsageError(error.format_message(), why=why, fix="see --help"), arguments)
        error.show()
        if why:
            click.echo(f"  why: {why}", err=True)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _failed(InterruptedByUserError("interrupted"), arguments)
    except XpuBuildError as error:
        return _failed(error, arguments)
    except (OSError, RuntimeError, MemoryError, UnicodeEncodeError) as error:
        return _machine_failed(error, arguments)
    return result if isinstance(result, int) else 0


def _variable(error: click.ClickException) -> str:
    """Say which variable of the environment a wrong value comes from; nothing where it is an option's."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    is_given = error.ctx.get_parameter_source(str(error.param.name)) is ParameterSource.ENVIRONMENT
    return f"the value is that of the variable {error.param.envvar}" if is_given else ""


def _machine_failed(error: BaseException, arguments: Sequence[str]) -> int:
    from xpubuild.engine.system_errors import of_machine
    from xpubuild.ui.terminal import disconnect, is_gone

    if isinstance(error, BrokenPipeError) or is_gone(sys.stdout):
        # The reader of our output went away (| head); what we did is done.
        disconnect(sys.stdout)
        return 0

    known = of_machine(error)
    if known is None:
        raise error
    return _failed(known, arguments)


def _document(error: XpuBuildError, arguments: Sequence[str]) -> None:
    """Print the JSON document of a failure if JSON was requested by option or variable."""
    from xpubuild.ui.console import print_json

    asked = os.environ.get("XPUBUILD_JSON", "").strip().lower() in ("1", "true", "yes", "on", "t", "y")
    if asked or {"--json", "json", "--format=json", "--shell=json"} & set(arguments):
        print_json(
            error.document or {"schema": "xpubuild.error/1", "status": "error", "error": error.to_json()}
        )


def _failed(error: XpuBuildError, arguments: Sequence[str]) -> int:
    from xpubuild.ui.console import render_error, summarise_error

    # What is wrong in a file is quoted, wherever in it a URL with a login stands.
    redact = Redactor()
    error.what, error.why, error.evidence = redact(error.what), redact(error.why), redact.tree(error.evidence)
    _document(error, arguments)
    report = os.environ.get(ERROR_FILE)
    if report:
        with contextlib.suppress(OSError):
            Path(report).write_text(json.dumps(error.to_json()), "utf-8")
    summarise_error(error)
    render_error(error, sys.stderr, github=os.environ.get("GITHUB_ACTIONS") == "true")
    return error.exit_code


def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Save the traceback to a file and print its path; the exit code stays 1. XPUBUILD_DEBUG=1 prints it."""
    if issubclass(kind, KeyboardInterrupt):
        # A second Ctrl-C while the first was being reported.
        sys.stderr.write("error: interrupted\n")
        return
    text = "".join(traceback.format_exception(kind, error, trace))
    if os.environ.get("XPUBUILD_DEBUG"):
        sys.stderr.write(text)
        return
    redact = Redactor.from_environment(os.environ)
    text, shown = redact(text), redact(str(error))
    where = "the file could not be saved"
    try:
        fd, path = tempfile.mkstemp(prefix="xpubuild-bug-", suffix=".txt")
        head = f"xpubuild {__version__}, Python {sys.version}\n{list(map(redact, sys.argv))}\n\n"
        with os.fdopen(fd, "w", encoding="utf-8") as stream:
            stream.write(head + text)
        where = path
    except OSError:
        pass
    sys.stderr.write(
        f"error: internal error in xpubuild: {kind.__name__}: {shown}\n  why: this is a bug in "
        "xpubuild, not in your input; everything built so far is kept\n  fix: report it with "
        f"the file that `xpubuild doctor --bundle report.md` writes; it has the details ({where})\n"
    )
