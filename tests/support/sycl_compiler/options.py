"""Which of icpx's options go to which step: the table of the stand-in driver."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_BOTH, _DEVICE, _HOST, _LINK, _DROPPED = "both", "device", "host", "link", "dropped"
#: The first that fits counts. An option that fits none is refused: it could change what is compiled.
_TABLE = (
    ("-fsycl-targets=", "targets"),
    ("-fsycl-host-compiler=", "host_compiler"),
    ("-fsycl-host-compiler-options=", "host_options"),
    ("-fsycl-device-code-split=", _DEVICE),
    # For wheels before 2026.0, which lack the libraries that the front end would link (libsycl-crt.bc).
    ("-fno-sycl-device-lib=", _DEVICE),
    ("-fsycl", _DROPPED),
    ("-ffp-model=", _DEVICE),
    # ccache asks a clang for colours, which it takes out again.
    ("-fcolor-diagnostics", _DROPPED),
    ("-shared", _LINK),
    ("-Wl,", _LINK),
    ("-L", _LINK),
    ("-l", _LINK),
    ("-std=", _BOTH),
    # The front end optimizes as it likes, and takes -O1 for the name of a file.
    ("-O", _HOST),
    ("-D", _BOTH),
    ("-I", _BOTH),
    ("-isystem", _BOTH),
    ("-f", _HOST),
    ("-W", _HOST),
    ("-g", _HOST),
    ("-m", _HOST),
)
#: Options whose value is the next word.
_WITH_VALUE = ("-D", "-I", "-isystem", "-L", "-l")
_BACKEND = ("-Xs", "-Xsycl-target-backend", "-Xsycl-target-backend=spir64_gen")
_SOURCES = (".cpp", ".cc", ".cxx", ".sycl")


class UsageError(Exception):
    """An option that the stand-in does not know."""


@dataclass
class Options:
    """A command line, divided."""

    device: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    targets: tuple[str, ...] = ("spir64",)
    host_compiler: str = "g++"
    host_options: list[str] | None = None
    backend: list[str] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)
    output: Path = Path("a.out")
    compile_only: bool = False
    lists_headers: bool = False
    header_list: Path | None = None


def divide(argv: Sequence[str]) -> Options:
    """Divide a command line.

    Raises:
        UsageError: the stand-in does not know an option.
    """
    options, words = Options(), iter(argv)
    for word in words:
        if word == "-c":
            options.compile_only = True
        elif word == "-o":
            options.output = Path(next(words))
        elif word == "-MD":
            options.lists_headers = True
        elif word == "-MF":
            options.header_list = Path(next(words))
        elif word in _BACKEND:
            options.backend += shlex.split(next(words))
        elif not word.startswith("-"):
            _input(options, word)
        else:
            _option(options, word, [next(words)] if word in _WITH_VALUE else [])
    return options


def _input(options: Options, word: str) -> None:
    if word.endswith(_SOURCES):
        options.sources.append(Path(word).absolute())
    else:
        options.link.append(word)


def _option(options: Options, word: str, value: list[str]) -> None:
    where = next((place for prefix, place in _TABLE if word.startswith(prefix)), None)
    if where is None:
        raise UsageError(f"the stand-in for icpx does not know the option {word}")
    _, _, rest = word.partition("=")
    if where == "targets":
        options.targets = tuple(rest.split(","))
    elif where == "host_compiler":
        options.host_compiler = rest
    elif where == "host_options":
        options.host_options = [*(options.host_options or ()), *shlex.split(rest)]
    if where in (_DEVICE, _BOTH):
        options.device += [word, *value]
    if where in (_HOST, _BOTH):
        options.host += [word, *value]
    if where == _LINK:
        options.link += [word, *value]
