"""Options that several commands share; each can also be set as XPUBUILD_<OPTION> in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from xpubuild.cli.grouped import OUTPUT, Option
from xpubuild.cli.names import recipes as completed_recipes

if TYPE_CHECKING:
    from xpubuild.supply.depot.location import Location
    from xpubuild.ui.sinks import SerialSink

Function = TypeVar("Function", bound=Callable[..., Any])
#: Heading -> the shared options below it in a ``GroupedCommand``'s help; all others come first.
_HEADINGS = {
    "Build": ("--cxx11-abi", "--arch", "--editable", "--allow-dirty", "--update", "--until",
              "--compile-cache", "--compile-cache-remote", "--lock-timeout"),
    "oneAPI": ("--oneapi-root", "--oneapi-mode", "--extra-path", "--extra-library-path"),
    "Sources and packages": ("--mirror", "--offline", "--store", "--store-read-only", "--installer", "--env",
                             "--packages", "--conda-lock", "--conda-channel"),
    "Locks": ("--locked", "--lock", "--lock-policy"),
    "Results for others": ("--wheel-dir", "--portable", "--runtime", "--module-dir", "--module-format",
                           "--depends-on"),
    OUTPUT: ("--json", "--quiet", "--verbose", "--log-format"),
}  # fmt: skip


def option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Return a click option that is also read from XPUBUILD_<LONG_NAME>."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    settings.setdefault("envvar", "XPUBUILD_" + long[2:].upper().replace("-", "_"))
    settings.setdefault("show_envvar", False)
    decorate: Callable[[Function], Function] = click.option(*names, cls=Option, **settings)
    heading = next((found for found, listed in _HEADINGS.items() if long in listed), "")

    def add(function: Function) -> Function:
        function = decorate(function)
        function.__click_params__[-1].heading = heading  # type: ignore[attr-defined]
        return function

    return add


def absolute(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Path | None:
    """Return a path as an absolute one."""
    if value is not None and not value.strip():
        # An unset variable in a script: the default place would be a surprise, for clean above all.
        raise click.BadParameter("it is empty; pass a path, or omit the option")
    return Path(value).expanduser().absolute() if value is not None else None


def absolute_paths(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[Path, ...]:
    """Return several paths as absolute ones."""
    return tuple(path for text in value if (path := absolute(ctx, param, text)) is not None)


def path_option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Return an option that is a path, made absolute without touching the disk."""
    settings.setdefault("callback", absolute)
    return option(*names, metavar=settings.pop("metavar", "DIR"), **settings)


def mirror(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Path | Location | None:
    """Return the folder or the server of a mirror."""
    from xpubuild.supply.depot.location import parse_mirror

    if value is not None and not value.strip():
        raise click.BadParameter("it is empty; pass a folder or a URL, or omit the option")
    return None if value is None else parse_mirror(value)


def mirror_option(help_text: str) -> Callable[[Function], Function]:
    """Return --mirror: a folder, or the URL of a mirror on a server."""
    return option("--mirror", default=None, callback=mirror, metavar="DIR|URL", help=help_text)


def stores(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> tuple[Path | Location, ...]:
    """Return the folders and servers of stores."""
    from xpubuild.supply.depot.location import parse_store

    texts = dict.fromkeys(part.strip() for text in value for part in text.split(",") if part.strip())
    return tuple(parse_store(text) for text in texts)


class _Commas(click.types.StringParamType):
    #: Of an environment variable with several values; a folder's name may have a space.
    envvar_list_splitter = ","


def store_option(help_text: str, **settings: Any) -> Callable[[Function], Function]:
    """Return --store: folders, or URLs of stores on servers, repeated or separated by commas."""
    return option(
        "--store",
        multiple=True,
        type=_Commas(),
        callback=stores,
        metavar="DIR|URL",
        help=help_text,
        **settings,
    )


json_option = option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
_SPOKEN = f"{__name__}.spoken"
VERBOSE = "Print every line of the tools' output too."
FAILURES, RESULT = "Print only failures.", "Print only failures and the result."


def speech(*passed: str, quiet: str = "", verbose: str = VERBOSE) -> Callable[[Function], Function]:
    """Return what adds -q, -v and --log-format, which every command has alike.

    Those in ``passed`` (log_format, quiet, verbose) are arguments of the function. The others are accepted,
    not listed by help, and kept for ``new_sink``: a command without progress may look up something.
    """

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        ctx.meta.setdefault(_SPOKEN, {})[param.name] = value
        return value

    def one(name: str, *names: str, **settings: Any) -> Callable[[Function], Function]:
        shown = name in passed
        return option(*names, callback=keep, expose_value=shown, hidden=not shown, **settings)

    def add(function: Function) -> Function:
        for decorate in reversed((
            one(
                "log_format", "--log-format", type=click.Choice(["rich", "plain", "github", "jsonl"]),
                default=None, help="Format of progress on stderr (default: depends on the terminal and CI).",
            ),
            one(
                "quiet", "-q", "--quiet", is_flag=True,
                help=quiet or (FAILURES if "quiet" in passed else RESULT),
            ),
            one("verbose", "-v", "--verbose", is_flag=True, help=verbose),
        )):  # fmt: skip
            function = decorate(function)
        return function

    return add


def new_sink() -> SerialSink:
    """Return a sink for progress on standard error, as -q, -v and --log-format of this command want it."""
    from xpubuild.ui.sinks import make_sink

    spoken = click.get_current_context().meta[_SPOKEN]
    return make_sink(spoken["log_format"], quiet=spoken["quiet"], verbose=spoken["verbose"])


def workspace_option(
    help_text: str = "Folder of the workspace (default: that of RECIPE, the active one, or the only one).",
) -> Callable[[Function], Function]:
    """Return --workspace; the default help is for commands that work on an existing workspace."""
    return path_option("--workspace", default=None, help=help_text)


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
            raise click.BadParameter(f"'{text}' has no folder")
        if component in found:
            raise click.BadParameter(f"two source trees for {component}")
        found[component] = Path(folder).expanduser().absolute()
    return found


EXTRA_PATH = "Folders to add to PATH in builds for the GPU, such as that of a module's ocloc."
EXTRA_LIBRARY_PATH = "Folders to add to LD_LIBRARY_PATH there: libraries of ocloc and the GPU driver."


def split_folders(_ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> tuple[Path, ...]:
    """Split 'a:b' and repeated options into one tuple of absolute folders."""
    folders = (item for text in value for item in str(text).split(os.pathsep) if item.strip())
    return tuple(dict.fromkeys(Path(folder).expanduser().absolute() for folder in folders))


def folders_option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Return an option that takes folders, repeated or separated by colons as in PATH."""
    settings.setdefault("metavar", "DIRS")
    # The type splits the environment variable at colons, not at spaces.
    return option(*names, multiple=True, type=click.Path(), callback=split_folders, **settings)


def names_option(*names: str, **settings: Any) -> Callable[[Function], Function]:
    """Return an option that takes names, repeated or separated by commas."""
    settings.setdefault("metavar", "NAMES")
    return option(*names, multiple=True, callback=split_names, **settings)


STORE_READ_ONLY = "--store-read-only/--no-store-read-only"
#: What everybody needs first.
_FIRST = ("--with", "--without", "--target", "--variant", "--arch", "--python", "--mirror", "--offline")
#: Ends the help of commands whose options are those of install.
LIKE_INSTALL = "Every other option of 'xpubuild install' is accepted too: see 'xpubuild install --help'."
#: The options about stores, for commands that build no wheel.
STORE = ("--store", STORE_READ_ONLY)

depends_on_option = names_option(
    "--depends-on",
    metavar="MODULES",
    help="Modules that bring oneAPI: the modulefile loads them and has nothing of oneAPI itself.",
)


def lock_options(function: Function) -> Function:
    """Add the options of install, plan and rehearse that build from a lock."""
    for decorate in reversed((
        option(
            "--locked", is_flag=True,
            help="Build from RECIPE.lock.yaml in the current folder; fail if it does not match.",
        ),
        path_option("--lock", "lock_file", default=None, metavar="FILE", help="Build from this lock."),
        option(
            "--lock-policy", type=click.Choice(["exact", "compatible", "ignore"]), default="compatible",
            show_default=True, help="How strictly this machine is compared with that of the lock.",
        ),
    )):  # fmt: skip
        function = decorate(function)
    return function


def module_options(function: Function) -> Function:
    """Add the options of install that write a modulefile."""
    for decorate in reversed((
        path_option(
            "--module-dir", default=None,
            help="Also write a modulefile, xpubuild/RECIPE, into this folder of a module system.",
        ),
        option(
            "--module-format", type=click.Choice(["lmod", "tcl"]), default="tcl",
            help="lmod: Lua, for Lmod; tcl (default): for Environment Modules, and for Lmod too.",
        ),
        depends_on_option,
    )):  # fmt: skip
        function = decorate(function)
    return function


def build_options(
    *,
    hidden: Collection[str] = (),
    brief: bool = False,
    mirror_help: str = "Mirror to use before the network: a folder, http or https URL.",
    workspace: str = "Folder for environment, sources, wheels and logs (default: one per user and recipe).",
    offline: str = "Do not use the network; fail if something is not in the mirror.",
) -> Callable[[Function], Function]:
    """Return what adds the argument RECIPE and the options that decide what is built.

    ``hidden`` are options without an effect on the command. It accepts them, since scripts pass one set of
    options to several commands, but its help does not list them; with ``brief`` it lists only those that
    everybody needs, and refers to the help of install. The others are help texts.
    """

    def is_hidden(name: str) -> bool:
        return name in hidden or (brief and name not in _FIRST)

    def one(make: Callable[..., Any], *names: str, **settings: Any) -> Callable[[Function], Function]:
        decorate: Callable[[Function], Function] = make(*names, hidden=is_hidden(names[0]), **settings)

        def add(function: Function) -> Function:
            function = decorate(function)
            function.__click_params__[-1].brief = names[0] not in hidden  # type: ignore[attr-defined]
            return function

        return add

    def add(function: Function) -> Function:
        for decorate in reversed((
            click.argument(
                "recipe", required=False, envvar="XPUBUILD_RECIPE", shell_complete=completed_recipes
            ),
            workspace_option(workspace),
            one(names_option, "--with", "with_", help="Components to add, such as vision,audio."),
            one(names_option, "--without", help="Components to exclude."),
            one(
                option, "--cxx11-abi", type=click.Choice(["0", "1"]), default=None,
                help="C++11 ABI to build with.",
            ),
            one(option, "--target", type=click.Choice(["xpu", "cpu"]), default=None, help="Target device."),
            one(
                option, "--variant", default=None, metavar="NAME",
                help="Named set of build switches of the recipe ('recipes show RECIPE' lists them).",
            ),
            one(names_option, "--arch", help="GPUs to compile kernels for ahead of time, such as pvc."),
            one(option, "--python", "python", default=None, metavar="EXE", help="Interpreter to build for."),
            one(option, "--jobs", default="auto", metavar="N|auto", help="Number of parallel compile jobs."),
            one(
                option, "--compile-cache", type=click.Choice(["auto", "ccache", "sccache", "none"]),
                default="auto", show_default=True, help="Program that keeps compiled objects.",
            ),
            one(
                option, "--compile-cache-remote", default=None, metavar="DIR|URL",
                help="Storage of objects that machines share: a folder, http, redis.",
            ),
            one(path_option, "--oneapi-root", default=None, help="oneAPI installation to use."),
            one(
                option, "--oneapi-mode", type=click.Choice(["components", "setvars", "unified"]),
                default="components",
                help="Scripts to run: those of the components (default), setvars.sh or oneapi-vars.sh.",
            ),
            one(folders_option, "--extra-path", help=EXTRA_PATH),
            one(folders_option, "--extra-library-path", help=EXTRA_LIBRARY_PATH),
            one(option, "--editable", is_flag=True, help="Install source components in editable mode."),
            mirror_option(mirror_help),
            one(option, "--offline", is_flag=True, help=offline),
            store_option(
                "Store of wheels to take from, beside your own; repeatable.", hidden=is_hidden("--store")
            ),
            one(
                option, STORE_READ_ONLY, is_flag=True, default=None,
                help="Keep nothing in any store (default in CI for releases and pull requests).",
            ),
            one(
                option, "--installer", type=click.Choice(["auto", "uv", "pip"]), default="auto",
                show_default=True, help="Installer of Python packages; auto: uv if it can be used, else pip.",
            ),
            one(
                option, "--packages", type=click.Choice(["venv", "conda"]), default="venv", show_default=True,
                help="Kind of environment to create.",
            ),
            one(
                path_option, "--conda-lock", default=None, metavar="FILE",
                help="conda-lock.yml for --packages conda (default: solve one).",
            ),
            one(
                option, "--conda-channel", multiple=True, metavar="CHANNEL",
                help="Channel to use instead of the recipe's; repeatable (credentials: .condarc, .netrc).",
            ),
            one(
                option, "--update", is_flag=True,
                help="Look up branches and tags again instead of using the recorded commits.",
            ),
            one(
                option, "--portable", is_flag=True,
                help="Repair the built wheels for other machines ('check --repair'), and install those.",
            ),
            one(
                path_option, "--runtime", default=None,
                help="Environment whose versions portable wheels require (default: that of the workspace).",
            ),
            one(
                option, "--allow-dirty", is_flag=True,
                help="Build with local changes in src/ instead of rejecting them.",
            ),
        )):  # fmt: skip
            function = decorate(function)
        return function

    return add
