"""Options that several commands share; each can also be given as XPUBUILD_<OPTION> in the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from xpubuild.mirror.remote.location import Location

Function = TypeVar("Function", bound=Callable[..., Any])


def option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Return a click option that is also read from XPUBUILD_<LONG_NAME>."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    settings.setdefault("envvar", "XPUBUILD_" + long[2:].upper().replace("-", "_"))
    settings.setdefault("show_envvar", False)
    return click.option(*names, **settings)


def _absolute(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Path | None:
    if value is not None and not value.strip():
        # An unset variable in a script: the default place would be a surprise, for clean above all.
        raise click.BadParameter("it is empty; give a path, or leave the option away")
    return Path(value).expanduser().absolute() if value is not None else None


def path_option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Return an option that is a path, made absolute without touching the disk."""
    return option(*names, callback=_absolute, metavar=settings.pop("metavar", "DIR"), **settings)


def _mirror(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Path | Location | None:
    from xpubuild.mirror.remote.location import parse_mirror

    if value is not None and not value.strip():
        raise click.BadParameter("it is empty; give a folder or a URL, or leave the option away")
    return None if value is None else parse_mirror(value)


def mirror_option(help_text: str) -> Callable[[Function], Function]:
    """Return --mirror: a folder, or the URL of a mirror that is served."""
    return option("--mirror", default=None, callback=_mirror, metavar="DIR|URL", help=help_text)


json_option = option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
log_format_option = option(
    "--log-format",
    type=click.Choice(["rich", "plain", "github", "jsonl"]),
    default=None,
    help="How progress is shown on stderr (default: by terminal and CI).",
)
quiet_option = option("-q", "--quiet", is_flag=True, help="Only failures and the result.")
verbose_option = option("-v", "--verbose", is_flag=True, help="Also every line the tools print.")
workspace_option = path_option(
    "--workspace", default=None, help="Folder of env, sources, wheels, logs (default: per user and recipe)."
)


def split_names(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split 'a,b' and repeated options into one tuple of names."""
    return tuple(dict.fromkeys(item.strip() for text in value for item in text.split(",") if item.strip()))


def split_trees(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> dict[str, Path]:
    """Return component -> folder for values such as DIR (torch's) and vision=DIR."""
    found: dict[str, Path] = {}
    for text in value:
        component, equals, folder = text.partition("=")
        if not equals or "/" in component or Path(text).exists():
            component, folder = "torch", text
        if not folder.strip():
            raise click.BadParameter(f"'{text}' names no folder")
        if component in found:
            raise click.BadParameter(f"two trees are given for {component}")
        found[component] = Path(folder).expanduser().absolute()
    return found


def names_option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Return an option that takes names, repeated or separated by commas."""
    return option(*names, multiple=True, callback=split_names, metavar="NAMES", **settings)


def lock_options(function: Function) -> Function:
    """Add the options by which install and plan take a lock."""
    for decorate in reversed((
        option("--locked", is_flag=True, help="Build what RECIPE.lock.yaml of this folder says, or nothing."),
        path_option("--lock", "lock_file", default=None, metavar="FILE", help="Build what this lock says."),
        option(
            "--lock-policy", type=click.Choice(["exact", "compatible", "ignore"]), default="compatible",
            show_default=True, help="How this machine is compared with that of the lock.",
        ),
    )):  # fmt: skip
        function = decorate(function)
    return function


def build_options(function: Function) -> Function:
    """Add the options that decide what is built; plan and install share them."""
    for decorate in reversed((
        click.argument("recipe", required=False, envvar="XPUBUILD_RECIPE"),
        workspace_option,
        names_option("--with", "with_", help="Components to add, such as vision,audio."),
        names_option("--without", help="Components to leave out."),
        option("--cxx11-abi", type=click.Choice(["0", "1"]), default=None, help="C++ ABI of what is built."),
        option("--target", type=click.Choice(["xpu", "cpu"]), default=None, help="Device to build for."),
        option("--variant", default=None, help="Named set of build switches of the recipe."),
        names_option("--arch", help="AOT targets, such as pvc."),
        option("--python", "python", default=None, metavar="EXE", help="Interpreter to build for."),
        option("--jobs", default="auto", metavar="N|auto", help="Compile jobs side by side."),
        path_option("--oneapi-root", default=None, help="oneAPI to use."),
        option(
            "--oneapi-mode", type=click.Choice(["components", "setvars", "unified"]), default="components",
            help="Source the components' scripts (default), setvars.sh, or oneapi-vars.sh.",
        ),
        option("--editable", is_flag=True, help="Install sources editable, for developers."),
        mirror_option("Take sources and packages from this mirror first: a folder, http, https or ssh URL."),
        option("--offline", is_flag=True, help="Use no network: what is not in the mirror is an error."),
        option(
            "--env", type=click.Choice(["venv", "conda"]), default="venv", show_default=True,
            help="What the environment is made of.",
        ),
        path_option(
            "--conda-lock", default=None, metavar="FILE", help="Packages of --env conda (default: solved).",
        ),
        option(
            "--conda-channel", multiple=True, metavar="CHANNEL",
            help="Ask these channels instead of the recipe's (credentials belong into .condarc or .netrc).",
        ),
        option("--update", is_flag=True, help="Look up branches and tags without a commit anew."),
        option("--allow-dirty", is_flag=True, help="Build with your own edits in src/ instead of refusing."),
    )):  # fmt: skip
        function = decorate(function)
    return function
