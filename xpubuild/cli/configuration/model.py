"""What a configuration file may hold. The options of commands come from the commands themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from xpubuild.frozen import frozen

Kind = Literal["flag", "choice", "number", "text", "texts", "lines", "jobs", "path", "place", "folders"]
Layer = Literal["site", "user", "project"]
#: A setting as options take it: folders and names are lists.
Value = str | bool | float | list[str]
#: ("install", "jobs"), ("recipes", "check", "tree"), ("options", "jobs").
Key = tuple[str, ...]

#: The table of options that holds for every command that has them.
SHARED = "options"
#: The name of a project's file, beside a recipe.
PROJECT_FILE = "xpubuild.toml"

#: Options that ask for one deed, or answer for a person: they are given when a command is called.
NEVER = frozenset({
    "yes", "dry-run", "step", "repair", "help", "list", "json", "check", "import", "export", "bundle",
    "junit", "update-baseline", "here", "markdown", "all", "older", "caches",
})  # fmt: skip

#: The options that a project may set: what is built and how it is shown. Its file may be a stranger's, so it
#: names no place to take programs, packages or sources from, and loosens no check.
PROJECT_OPTIONS = frozenset({
    "with", "without", "packages", "cxx11-abi", "target", "variant", "arch", "jobs", "editable",
    "oneapi-mode", "python", "until", "profile", "suite", "device", "for-python", "quiet", "verbose",
    "log-format", "format",
})  # fmt: skip


@frozen
class Form:
    """A regular expression that the whole text fits, and what that is in words: "must be WORDS"."""

    pattern: str
    words: str


@frozen
class Setting:
    """One key: how its value is written, and what it means."""

    kind: Kind
    help: str
    choices: tuple[str, ...] = ()
    #: Whether the table ``options`` has it too, which is where XPUBUILD_<NAME> is one option everywhere.
    shared: bool = False
    #: Environment variables that hold the same; the first is set, unless one of them is.
    variables: tuple[str, ...] = ()
    form: Form | None = None


@frozen
class Source:
    """A configuration file: whose it is, and where."""

    layer: Layer
    path: Path


@frozen
class Item:
    """A value that a file sets. ``line`` is 0 where nobody has asked for it."""

    key: Key
    value: Value
    source: Source


@frozen
class Problem:
    """Something wrong in a file; ``line`` counts from 1, 0 where the file as a whole is meant."""

    path: Path
    line: int
    key: str
    value: str
    what: str
    fix: str

    def told(self) -> str:
        """Return it on one line, as compilers do."""
        place = f"{self.path}:{self.line}" if self.line else str(self.path)
        about = f"{self.key} = {self.value}: " if self.value else f"{self.key}: " if self.key else ""
        return f"{place}: {about}{self.what}"


#: Command ("install", or "recipes check" in two words) -> option -> what it takes.
Commands = Mapping[Key, Mapping[str, Setting]]

#: Of a kind of nodes, for the jobs of "plan --format slurm|pbs".
_NODES: Mapping[str, Setting] = {
    "partition": Setting("text", "Partition of Slurm, queue of PBS."),
    "account": Setting("text", "Account (project) that the jobs are for."),
    "time": Setting(
        "text",
        "Time limit of a job: HH:MM:SS or D-HH:MM:SS.",
        form=Form(r"(?:\d+-)?\d+:[0-5]\d:[0-5]\d", "a time such as 12:00:00 or 1-00:00:00"),
    ),
    "cores": Setting("number", "Cores of a job."),
    "memory": Setting("text", "Memory of a job, such as 64G for Slurm, 64gb for PBS."),
    "gpus": Setting("text", "GPUs of a job: a number; Slurm also takes TYPE:NUMBER."),
    "directives": Setting("lines", "More options of sbatch or qsub, such as --constraint=max."),
    "setup": Setting("lines", "Lines of bash before the work of a job, such as 'module load gcc/13'."),
}

_PROXY = Form(
    r"(?:[A-Za-z][\w+.-]*://)?[^\s/]+:\d+/?|[A-Za-z][\w+.-]*://[^\s/]+/?",
    "a URL such as http://proxy.example:3128",
)

#: Tables that belong to no command. Every setting that is no option of a command is here, and nowhere else.
#: A name with a dot is a table in a table.
TABLES: Mapping[str, Mapping[str, Setting]] = {
    "trust": {
        "owners": Setting(
            "texts",
            "User names or numbers: oneAPI scripts and stores of these users are used, as root's and yours.",
            variables=("XPUBUILD_TRUSTED_OWNERS",),
        ),
        "stores": Setting(
            "texts",
            "Stores of built wheels (folders, URLs) that are used although others can write to them.",
            variables=("XPUBUILD_TRUSTED_STORES",),
        ),
    },
    "places": {
        "data": Setting(
            "path",
            "Workspaces are created in xpubuild/ below this folder.",
            variables=("XDG_DATA_HOME",),
        ),
        "cache": Setting(
            "path",
            "Sources, packages and captured oneAPI environments are kept in xpubuild/ below this folder.",
            variables=("XDG_CACHE_HOME",),
        ),
    },
    "proxies": {
        "http": Setting("text", "Proxy for http.", variables=("http_proxy", "HTTP_PROXY"), form=_PROXY),
        "https": Setting("text", "Proxy for https.", variables=("https_proxy", "HTTPS_PROXY"), form=_PROXY),
        "no": Setting("texts", "Hosts that are reached without one.", variables=("no_proxy", "NO_PROXY")),
    },
    "jobs": _NODES,
    **{f"jobs.{kind}": _NODES for kind in ("fetch", "build", "verify", "report")},
}
