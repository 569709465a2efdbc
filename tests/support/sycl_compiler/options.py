"""Which of icpx's options go to which step: the table of the stand-in driver."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_BOTH, _DEVICE, _HOST, _LINK, _IGNORED = "both", "device", "host", "link", "ignored"
#: For the device, and for the host beside -fsycl-host-compiler-options too.
_PREPROCESSOR = "preprocessor"
#: The first that fits counts. An option that fits none is refused: it could change what is compiled.
_TABLE = (
    ("-fsycl-targets=", "targets"),
    ("-fsycl-host-compiler=", "host_compiler"),
    ("-fsycl-host-compiler-options=", "host_options"),
    ("-fsycl-device-code-split=", _DEVICE),
    # For wheels before 2026.0, which lack the libraries that the front end would link (libsycl-crt.bc).
    ("-fno-sycl-device-lib=", _DEVICE),
    ("-fno-sycl-id-queries-fit-in-int", _DEVICE),
    ("-fsycl-max-parallel-link-jobs=", "link_jobs"),
    # Emulation of double precision is for other devices than a Max.
    ("-fsycl-fp64-conv-emu", _IGNORED),
    # The front end does as these ask without being asked, -no-ftz as far as it is about the device.
    ("-fno-sycl-unnamed-lambda", _IGNORED),
    ("-sycl-std=2020", _IGNORED),
    ("-no-ftz", _IGNORED),
    ("-fsycl-link", "device_link"),
    ("-fsycl", "sycl"),
    ("-fno-sycl", _IGNORED),
    ("-ffp-model=", _DEVICE),
    ("-fhonor-nans", _DEVICE),
    ("-fhonor-infinities", _DEVICE),
    ("-fno-approx-func", _DEVICE),
    ("-fno-associative-math", _DEVICE),
    ("-fno-reciprocal-math", _BOTH),
    # ccache asks a clang for colours, which it takes out again.
    ("-fcolor-diagnostics", _IGNORED),
    ("-shared", _LINK),
    ("-rdynamic", _LINK),
    ("-Wl,", _LINK),
    ("-L", _LINK),
    ("-l", _LINK),
    ("-std=", _BOTH),
    ("-w", _BOTH),
    # The front end optimizes as it likes, and takes -O1 for the name of a file.
    ("-O", _HOST),
    # It chooses what comes after a release: 2026.2 then lacks nd_item::barrier, which kernels of 2.6 call.
    # Host code is linked with libsycl, not with libsycl-preview.
    ("-D__INTEL_PREVIEW_BREAKING_CHANGES", _IGNORED),
    ("-D", _PREPROCESSOR),
    ("-U", _PREPROCESSOR),
    ("-I", _PREPROCESSOR),
    ("-isystem", _PREPROCESSOR),
    ("-include", _PREPROCESSOR),
    ("-f", _HOST),
    ("-W", _HOST),
    ("-g", _HOST),
    ("-m", _HOST),
    ("-p", _HOST),
)
#: Options whose value is the next word.
_WITH_VALUE = ("-D", "-U", "-I", "-isystem", "-include", "-L", "-l")
_BACKEND = ("-Xs", "-Xsycl-target-backend", "-Xsycl-target-backend=spir64_gen")
_SOURCES = (".cpp", ".cc", ".cxx", ".sycl")
#: What no GCC knows, for a source that is compiled for the host alone; and what takes a word with it.
_NOT_FOR_GCC = ("-fsycl", "-fno-sycl", "-sycl-std", "-ffp-model=", "-fcolor-diagnostics", "-no-ftz")


class UsageError(Exception):
    """An option that the stand-in does not know."""


@dataclass
class Options:
    """A command line, divided."""

    device: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)
    preprocessor: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    targets: tuple[str, ...] = ("spir64",)
    host_compiler: str = "g++"
    #: Whether a host compiler is named; without one, icpx would compile for the host itself.
    other_host: bool = False
    host_options: list[str] | None = None
    backend: list[str] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)
    output: Path = Path("a.out")
    compile_only: bool = False
    preprocess_only: bool = False
    device_link: bool = False
    link_jobs: int = 1
    lists_headers: bool = False
    header_list: Path | None = None
    header_target: str | None = None

    @property
    def for_host(self) -> list[str]:
        """The options of the host pass."""
        return [*(self.host if self.host_options is None else self.host_options), *self.preprocessor]


def is_sycl(argv: Sequence[str]) -> bool:
    """Whether a command line asks for SYCL at all."""
    return "-fsycl" in argv


def plain(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line that GCC knows, for one that does not ask for SYCL."""
    words, kept = iter(argv), []
    for word in words:
        if word in _BACKEND:
            next(words, None)
        elif not word.startswith(_NOT_FOR_GCC):
            kept.append(word)
    return kept


def ignored() -> list[str]:
    """Return the options that the stand-in takes and does nothing for."""
    return [option for option, place in _TABLE if place == _IGNORED]


def divide(argv: Sequence[str]) -> Options:
    """Divide a command line.

    Raises:
        UsageError: the stand-in does not know an option.
    """
    options, words = Options(), iter(argv)
    for word in words:
        if word == "-c":
            options.compile_only = True
        elif word == "-E":
            options.preprocess_only = True
        elif word == "-o":
            options.output = Path(next(words))
        elif word == "-MD":
            options.lists_headers = True
        elif word == "-MF":
            options.header_list = Path(next(words))
        elif word == "-MT":
            options.header_target = next(words)
        elif word in _BACKEND:
            # CMake escapes spaces of commands that are not VERBATIM, inside of quotes too (2.6).
            options.backend += shlex.split(next(words).replace("\\ ", " "))
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
    _set(options, where, word.partition("=")[2])
    if where in (_DEVICE, _BOTH, _PREPROCESSOR):
        options.device += [word, *value]
    if where in (_HOST, _BOTH):
        options.host += [word, *value]
    if where == _PREPROCESSOR:
        options.preprocessor += [word, *value]
    if where == _LINK:
        options.link += [word, *value]


def _set(options: Options, where: str, value: str) -> None:
    match where:
        case "targets":
            options.targets = tuple(value.split(","))
        case "host_compiler":
            options.host_compiler, options.other_host = value, True
        case "host_options":
            options.host_options = [*(options.host_options or ()), *shlex.split(value)]
        case "link_jobs":
            options.link_jobs = int(value)
        case "device_link":
            options.device_link = True
