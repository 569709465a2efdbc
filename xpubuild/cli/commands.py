"""Every command: its module, its argument, and its options under their headings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Command(NamedTuple):
    """A row: the module of a command, its short help, its argument, and its options in the order of help."""

    module: str
    help: str
    options: str = ""
    argument: str = ""
    #: Whether all options of install's build are accepted; those that are not in ``options`` are not shown.
    builds: bool = False


_RECIPE: Mapping[str, Any] = {"name": "recipe", "complete": "recipes"}
_WORKSPACE: Mapping[str, Any] = {"name": "recipe", "complete": "workspaces"}
# fmt: off
#: NAME -> what completes an argument (a name of ``options.KNOWN``), and what click knows of it.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "recipe": {**_RECIPE, "envvar": "XPUBUILD_RECIPE"},
    "workspace": {**_WORKSPACE, "metavar": "[WORKSPACE]"},
    "checked": {**_WORKSPACE, "name": "given", "metavar": "[WORKSPACE|WHEEL...|LOCK|DEPOT]", "nargs": -1},
    "run": {**_WORKSPACE, "metavar": "[WORKSPACE] [-- COMMAND...]"},
    "tests": {"name": "paths", "metavar": "[PATHS...] [-- OPTIONS OF PYTEST...]", "nargs": -1},
    "bisected": {**_RECIPE, "metavar": "RECIPE -- COMMAND...", "required": True, "envvar": "XPUBUILD_RECIPE"},
    "log": {"name": "log", "metavar": "LOG"},
    "shell": {"name": "shell", "required": True, "type": click.Choice(("bash", "zsh", "fish"))},
    "shown": {**_RECIPE, "required": True},
    "recipes": {**_RECIPE, "nargs": -1},
    "release": {"name": "release", "required": True},
    "programs": {"name": "paths", "metavar": "PATH... [-- COMMAND...]", "nargs": -1},
    "builder": {"name": "builder_options", "nargs": -1},
}
_CHOICE = "with without target variant"
_PLAN = f"workspace {_CHOICE} arch python mirror offline"
_OF_LOCKS = "locked lock lock-policy"
_ALL = "| Output: json log-format quiet verbose"
#: NAME -> row. In the options, what is before ":" is a heading of help; "|" ends the options below it.
COMMANDS: Mapping[str, Command] = {
    "doctor": Command("diagnose", "Check whether this host can build and run PyTorch for XPU.",
        f"profile recipe target root python workspace only skip list bundle {_ALL}"),
    "install": Command("build", "Build and verify a recipe in a workspace.",
        f"{_PLAN} jobs dry-run"
        "| Build: cxx11-abi editable allow-dirty source-dir quick update until compile-cache"
        "| oneAPI: oneapi-root oneapi-mode extra-path extra-library-path"
        "| Sources and packages: store store-read-only installer packages conda-lock conda-channel"
        f"| Locks: {_OF_LOCKS} | Results for others: wheel-dir sign-key libtorch module-dir module-default"
        f" module-format depends-on bundle {_ALL}", "recipe"),
    "rehearse": Command("build", "Configure a build without compiling, and report what would be built.",
        f"workspace {_CHOICE} arch python dry-run | -: {_OF_LOCKS} {_ALL}", "recipe", builds=True),
    "plan": Command("build", "Show what install would do: table, JSON or shell script.",
        f"workspace {_CHOICE} arch python format matrix output | -: {_OF_LOCKS}", "recipe", builds=True),
    "lock": Command("build", "Lock every input of a recipe.",
        f"{_CHOICE} arch python mirror output sbom | Output: json quiet", "recipe", builds=True),
    "fetch": Command("build", "Download everything that an offline install needs.",
        f"{_CHOICE} mirror for-python {_ALL}", "recipe", builds=True),
    "store": Command("store", "List, copy and remove wheels of earlier builds."),
    "store list": Command("store", "List the wheels that are kept.", "store"),
    "store size": Command("store", "Show how large the stores are.", "store"),
    "store push": Command("store", "Copy kept wheels to another store.", "store"),
    "store pull": Command("store", "Copy the wheels of a recipe from other stores to your own.",
        f"{_CHOICE} store", "recipe", builds=True),
    "store gc": Command("store", "Remove kept wheels that nothing has used for some time.",
        "store older dry-run yes"),
    "check": Command("check", "Hash and audit what was built: workspaces, wheels, locks, mirrors.",
        "workspace repair | Wheels: policy cxx11-abi allow-missing search installed-in arch"
        "| Wheels with --repair: runtime output"
        "| Locks: lock-policy recipe python oneapi-root extra-path extra-library-path conda-lock mirror"
        f" offline {_ALL}", "checked"),
    "verify": Command("verify", "Test an installed PyTorch on the device.",
        "workspace python device stand-in suite no-gpu data operators minutes results"
        " nodes launcher baseline update-baseline only skip require list junit output | Output: json quiet",
        "workspace"),
    "test": Command("develop", "Run PyTorch's own tests, and compare them with the accepted run.",
        "workspace python device stand-in source select accept junit | Output: json quiet", "tests"),
    "bisect": Command("develop", "Find the first commit with which a command fails.",
        f"good bad component workspace {_CHOICE} python jobs mirror offline {_ALL}", "bisected", builds=True),
    "status": Command("workspace", "Show the steps, runs and results of a workspace.",
        "workspace all jobs junit html", "workspace"),
    "env": Command("workspace", "Print the shell commands that activate a workspace.",
        "workspace format depends-on", "workspace"),
    "run": Command("workspace", "Run a command, or a shell, in a workspace's environment.",
        "workspace stand-in | Output:", "run"),
    "clean": Command("workspace", "Remove the files that xpubuild made in a workspace.",
        "workspace step caches dry-run yes", "workspace"),
    "config": Command("config", "Show, check and write configuration files; print shell completion.",
        "recipe all"),
    "config init": Command("config", "Write a configuration file with every setting as a comment.", "output"),
    "config completion": Command("config", "Print what completes commands, options and names in a shell.",
        argument="shell"),
    "recipes": Command("recipes", "List, show and check recipes."),
    "recipes matrix": Command("recipes", "Show which releases go with which oneAPI, driver, Python and GCC.",
        "gpu driver oneapi python gcc cxx11-abi arch target here"),
    "recipes list": Command("recipes", "List all recipes."),
    "recipes show": Command("recipes", "Show a summary of a recipe.", "| Output: json verbose", "shown"),
    "recipes check": Command("recipes", "Check recipes for errors.", "tree", "recipes"),
    "recipes bump": Command("recipes", "Propose the pins of a release, as upstream has them.",
        "tree output", "release"),
    "image": Command("build", "Write a container image of a recipe, and build it.",
        f"{_CHOICE} arch base format xpubuild output build tag | Output: json quiet",
        "recipe builder", builds=True),
    "explain": Command("diagnose", "Find the first error in a build log, its cause and a fix.",
        "list here", "log"),
    "migrate": Command("migrate", "Rewrite programs for CUDA so that they run on XPU.",
        "to torch python values write patch check baseline update-baseline sarif"
        "| Proof: prove workspace stand-in | Output: json quiet", "programs"),
    "plumbing": Command("plumbing", "Commands that plans run; for scripts, not for people."),
}
# fmt: on


def sections(command: str) -> dict[str, list[str]]:
    """Return heading of help -> options below it; accepted ones that help does not show are below "-"."""
    row = COMMANDS[command]
    found: dict[str, list[str]] = {}
    for part in row.options.split("|"):
        heading, _, names = part.rpartition(":")
        found.setdefault(heading.strip(), []).extend(names.split())
    found.setdefault("Output", ["json"])
    shown = {name for names in found.values() for name in names}
    every = ("log-format", "quiet", "verbose", *(_BUILD if row.builds else ()))
    return {**found, "-": [*found.get("-", ()), *(name for name in every if name not in shown)]}


_OF_INSTALL = (
    "dry-run until wheel-dir sign-key libtorch module-dir module-default module-format depends-on"
    " locked lock lock-policy bundle"
)
#: The options of install that decide what is built: those of ``Options``.
_BUILD = [
    name
    for heading, names in sections("install").items()
    for name in names
    if heading != "Output" and name not in _OF_INSTALL.split()
]
