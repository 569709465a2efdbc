"""docs/reference/environment.md, from the options and the environment of children."""

from __future__ import annotations

import click

from docgen import markdown as md
from docgen.cli_page import commands
from xpubuild.engine import environment

_ABOUT = """
## Options

Each of these variables sets an option of the listed commands; an option on the command line takes precedence,
and a variable over [configuration files](../how-to/configure.md), which may set the same and more.
A flag is set with `1` or `true`; several values are separated by commas. A variable that is empty switches
off what a configuration file sets. In an activated workspace
(`eval "$(xpubuild env)"`), `XPUBUILD_ENTERED` is set: commands without a recipe or `--workspace` use that
workspace.
"""

#: Variables that the code reads beside the options. A test holds this list against the source.
OTHERS = {
    "XPUBUILD_RECIPES": "Folders with recipes, separated by colons, searched before all others.",
    "XPUBUILD_TRUSTED_OWNERS": (
        "User names or numbers, separated by commas. oneAPI scripts and stores of built wheels of these "
        "users are used, as root's and yours."
    ),
    "XPUBUILD_TRUSTED_STORES": (
        "Stores of built wheels (folders, URLs), separated by commas, that are used although others can "
        "write to them."
    ),
    "XPUBUILD_SHARE_GROUP": (
        "Name or number of the group that uses what is made for others. Default: everybody."
    ),
    "XPUBUILD_SHARE_MODE": (
        "Mode of folders that are made for others, such as 2750. Default: 755, with a group 2755."
    ),
    "XPUBUILD_DOCTOR_DRIVER_SECONDS": (
        "Seconds after which doctor reports a hanging GPU driver. Default and maximum: 8."
    ),
    "XPUBUILD_DEBUG": "Set to anything: print the full traceback of a bug in xpubuild.",
    "ONEAPI_ROOT": "oneAPI installation, used after `--oneapi-root` and before the usual places.",
    "XDG_DATA_HOME": "Workspaces are created in `xpubuild/` below it. Default: `~/.local/share`.",
    "XDG_CACHE_HOME": "git mirrors, captured oneAPI environments and built wheels are kept in `xpubuild/`"
    " below it. Default: `~/.cache`.",
    "XDG_CONFIG_HOME": "Your recipes are looked for in `xpubuild/recipes/` below it, your configuration is"
    " `xpubuild/config.toml` below it. Default: `~/.config`.",
    "XDG_CONFIG_DIRS": "The site's recipes are looked for in `xpubuild/recipes/` below the first, its"
    " configuration in `xpubuild/config.toml` below each; the first folder wins. Default: `/etc/xdg`.",
    "CC, CXX": "The host compilers to use, unless the recipe sets its own.",
    "NO_COLOR": "Set to anything: no colours, and progress as plain lines.",
    "FORCE_COLOR": "Set to `1` or `true`: colours even if the output is not a terminal.",
    "CI": "Set to `1` or `true`: progress as plain lines, no redrawing.",
    "GITHUB_ACTIONS": "Set to `true`: progress in the form that GitHub folds into groups.",
    "GITHUB_STEP_SUMMARY": "The file that GitHub Actions shows as the job's summary: results are appended.",
    "GITHUB_EVENT_NAME": "`pull_request`, `pull_request_target` or `release`: nothing is kept in a store.",
    "GITHUB_REF_TYPE": "`tag`: nothing is kept in a store.",
    "GITLAB_CI, CI_MERGE_REQUEST_IID, CI_COMMIT_TAG": "A job of a merge request or tag: nothing is kept in a"
    " store.",
    "TERM": "`dumb` or `unknown`: no escape sequences at all.",
}

_CHILDREN = """
## What a build sees

Programs that xpubuild starts do not inherit your environment: a variable such as `CPATH`, `CFLAGS` or
`CMAKE_PREFIX_PATH` would change what PyTorch's build finds. They get the variables below, what the plan adds
(`xpubuild plan --format json` shows it per command), and `LC_ALL=C.UTF-8`.
"""


def page() -> str:
    """Return the page."""
    parts = [md.head("Environment variables", "xpubuild/cli and xpubuild/engine/environment.py"), _ABOUT]
    parts.append(md.table(("variable", "option", "commands"), _option_rows()))
    parts.append("## Others\n")
    parts.append(md.table(("variable", "meaning"), [(_codes(name), text) for name, text in OTHERS.items()]))
    parts.append(_CHILDREN)
    kept = [*sorted(environment._EXACT), *(f"{prefix}*" for prefix in environment._PREFIXES)]
    parts.append(", ".join(md.code(name) for name in kept) + ".\n")
    never = ", ".join(md.code(name) for name in sorted(environment._NEVER))
    parts.append(f"Never passed on, because pip would install to another place than planned: {never}.\n")
    return "\n".join(parts)


def _codes(names: str) -> str:
    return ", ".join(md.code(name) for name in names.split(", "))


def _option_rows() -> list[tuple[str, str, str]]:
    users: dict[tuple[str, str], list[str]] = {}
    for name, command in commands():
        for parameter in command.params:
            if isinstance(parameter.envvar, str) and not getattr(parameter, "hidden", False):
                users.setdefault((parameter.envvar, _spelling(parameter)), []).append(name.partition(" ")[2])
    return [
        (md.code(variable), spelling, ", ".join(names))
        for (variable, spelling), names in sorted(users.items())
    ]


def _spelling(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return str(parameter.human_readable_name)
    return md.code(next(name for name in parameter.opts if name.startswith("--")))
