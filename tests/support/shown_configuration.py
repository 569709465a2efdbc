"""What configuration files make of each kind of value, whole: values, their sources, each kind of error."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from support.data_files import dumped, placed
from xpubuild.cli.configuration import lookup
from xpubuild.cli.configuration.checking import check, failure
from xpubuild.cli.configuration.files import sources
from xpubuild.cli.configuration.model import Form, Setting, Source
from xpubuild.cli.configuration.report import check_document, config_document
from xpubuild.cli.configuration.template import template

_JOBS = Setting("jobs", "How many compilers run at the same time.", shared=True)
_KINDS = {
    "a-choice": Setting("choice", "One of some.", choices=("one", "two", "three")),
    "one-choice": Setting("choice", "One of one.", choices=("one",)),
    "a-text": Setting("text", "Any text.", variables=("A_TEXT", "a_text")),
    "a-form": Setting("text", "Digits.", form=Form(r"\d+", "digits")),
    "a-flag": Setting("flag", "Yes or no."),
    "a-number": Setting("number", "Any number."),
    "some-texts": Setting("texts", "Texts."),
    "some-lines": Setting("lines", "Lines."),
    "some-folders": Setting("folders", "Folders."),
    "a-path": Setting("path", "A path. " + "This help does not fit into one line of a file. " * 3),
    "a-place": Setting("place", "A path or a URL."),
}
_COMMANDS = {
    ("do",): {"jobs": Setting("jobs", "For do.", shared=True), **_KINDS},
    ("install",): {"jobs": _JOBS, "python": Setting("text", "An interpreter.", shared=True)},
    ("do", "more"): {"with": Setting("texts", "Parts.")},
}
_SITE = """
[options]
jobs = 8
[trust]
owners = ["root", "1000"]
[proxies]
no = "a, b,,c"
[do]
a-text = "of the site"
"""
_USER = """
[options]
jobs = 4
python = "python3.12"
[do]
jobs = "auto"
a-choice = "two"
a-text = "of the user"
a-form = 123
a-flag = true
a-number = 2
some-texts = "one, two,"
some-lines = "one, two"
some-folders = ["~/a:/b", "c"]
a-path = "$PLACE/${PLACE}/d"
a-place = "https://host.example.invalid/x"
[do.more]
with = ["vision", "audio"]
[jobs]
time = "1-02:03:04"
cores = 5
[jobs.build]
cores = 6
setup = ["module load gcc", "ulimit -c 0"]
"""
_PROJECT = """
[options]
jobs = 2
"""
_WRONG = """
jobs = 8
install = 5
unknown = "http://me:secret@host.example.invalid"
[options]
jbs = 8
jobs = 0
yes = true
[do]
jobs = "many"
a-choice = "tow"
one-choice = 5
a-text = ["a list"]
a-form = "x"
a-flag = "true"
a-number = "2"
some-texts = ["a", true]
some-lines = ["a\\nb"]
some-folders = 5
a-path = "$NOWHERE/x"
a-place = ""
[do.other]
key = 1
[proxies]
http = "no proxy"
"""
_STRANGE = """
[options]
python = "/tmp/python"
[do]
a-path = "x"
[do.more]
with = ["vision"]
[trust]
owners = ["me"]
"""


def _files(folder: Path) -> dict[str, str]:
    """Write the files and return the environment in which they hold."""
    for name, text in (
        ("site/xpubuild/config.toml", _SITE), ("user/xpubuild/config.toml", _USER),
        ("project/xpubuild.toml", _PROJECT), ("wrong.toml", _WRONG), ("stranger/xpubuild.toml", _STRANGE),
    ):  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    return {
        "XDG_CONFIG_DIRS": f"{folder}/none{os.pathsep}{folder}/site{os.pathsep}relative",
        "XDG_CONFIG_HOME": f"{folder}/user", "HOME": f"{folder}/home", "PLACE": "/a place",
        "a_text": "of a variable", "XPUBUILD_PYTHON": "python3.13", "http_proxy": "http://proxy:1",
    }  # fmt: skip


def _made(make: Callable[[Path, Mapping[str, str]], object]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        home = str(Path("~").expanduser())
        return dumped(placed(make(Path(folder), _files(Path(folder))), {folder: "{folder}", home: "{home}"}))


def _values(folder: Path, environ: Mapping[str, str]) -> object:
    found = lookup.load(_COMMANDS, environ, f"{folder}/project/recipe.yaml")
    applied = dict(environ)
    known = set(lookup._applied)
    found.apply(applied)
    lookup._applied.intersection_update(known)  # this process got none of them
    return {
        "config": config_document(found, _COMMANDS, environ, everything=True)
        | {"of the user alone": [str(item.path) for item in sources(environ, "a-name")]},
        "nodes": {kind: found.nodes(kind) for kind in ("fetch", "build")},
        "values": {
            name: found.value(("do",), name, environ) for name in ("jobs", "python", "a-flag", "with", "none")
        },
        "applied": {name: value for name, value in applied.items() if value != environ.get(name)},
    }


def _errors(folder: Path, environ: Mapping[str, str]) -> object:
    files = [folder / "wrong.toml", folder / "stranger" / "xpubuild.toml", folder / "missing.toml"]
    document = check_document(files, _COMMANDS, environ)
    errors = [failure(check(Source("user", file), _COMMANDS, environ)) for file in (files[0], files[2])]
    return {
        "check": document,
        "without files": check_document([], _COMMANDS, environ),
        "errors": [error.to_json() for error in errors if error is not None],
    }


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "configuration-values": lambda: _made(_values),
    "configuration-errors": lambda: _made(_errors),
    "configuration-template": lambda: template(_COMMANDS, project=False),
    "configuration-template-project": lambda: template(_COMMANDS, project=True),
}
