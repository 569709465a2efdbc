"""Asks package indexes with uv what they have; nothing is downloaded or installed."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from xpubuild.engine.process import Cancel, QueryResult, query
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, ToolchainError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.index.pipconf import pip_settings
from xpubuild.supply.requirements import HashedPin, hashed_pins
from xpubuild.supply.uv.settings import translated

_DEADLINE_S = 120.0
# Somebody waits for the answer, and nothing depends on it.
_HASTY = {"timeout": "5", "retries": "0"}
# The tags of Python that the files of a release have, as uv lists them in its hint.
_TAG = re.compile(r"`cp3(\d+)`")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_CONNECTION = re.compile(r"Failed to fetch|error sending request|Request failed")
# Anything else is left to the installation, which says what is wrong.
_NOWHERE = re.compile("No solution found")
_LACKS = re.compile(rf"{_NOWHERE.pattern}|{_CONNECTION.pattern}")


@frozen
class Prebuilt:
    """A wheel that a build takes prebuilt.

    ``text`` is the hashed requirement file that pins it, "" where nobody has written its hashes down; then
    ``indexes`` alone are asked, else after those that pip is configured with.
    """

    dist: str
    version: str
    indexes: tuple[str, ...] = ()
    text: str = ""

    def pin(self) -> HashedPin:
        """Return the pin of the file, or one without hashes."""
        name = canonicalize_name(self.dist)
        bare = HashedPin(self.dist, self.version, SpecifierSet(f"=={self.version}"), None, frozenset())
        return next((pin for pin in hashed_pins(self.text) if canonicalize_name(pin.name) == name), bare)


@frozen
class Asker:
    """uv, the interpreter to ask for, and the environment, which has pip's settings."""

    uv: str
    python_version: str
    environment: Mapping[str, str]
    cancel: Cancel | None = None

    def first_lacking(self, wheels: Sequence[Prebuilt], *, hasty: bool = False) -> XpuBuildError | None:
        """Return why the first wheel that no place offers cannot be installed; None if none is lacking.

        A place that does not answer lacks everything; ``hasty`` gives it little time to. What cannot be asked
        is left to the installation.

        Raises:
            RecipeError: a requirement file is no list of pins with sha256.
            InterruptedByUserError: it was cancelled.
        """
        for wheel in wheels:
            pin = wheel.pin()
            line = " ".join([f"{pin.name}=={pin.version}", *(f"--hash=sha256:{item}" for item in pin.hashes)])
            places = [(url,) for url in wheel.indexes]
            result: QueryResult | None = None
            for extra in places if not pin.hashes else [(), *places]:
                words = ("install", "--dry-run", *(("--require-hashes",) if pin.hashes else ()))
                result = self._query(words, line, extra, alone=not pin.hashes, hasty=hasty)
                if result is None or result.ok:
                    break
            # uv gives up at an index that does not answer, where pip goes on with others.
            telling = _LACKS if not pin.hashes else _NOWHERE
            if result is not None and not result.ok and telling.search(result.stderr):
                return self._lacks(wheel, result)
        return None

    def hashes(self, wheel: Prebuilt) -> list[str]:
        """Return "sha256:…" of every file of a release that its own indexes list; none where unknown."""
        for url in wheel.indexes:
            words = ("compile", "--generate-hashes", "--no-header", "--no-annotate")
            result = self._query(words, f"{wheel.dist}=={wheel.version}", (url,), alone=True)
            if result is not None and result.ok:
                return sorted(set(_HASH.findall(result.stdout)))
        return []

    def _query(
        self,
        words: Sequence[str],
        line: str,
        extra: Sequence[str],
        *,
        alone: bool,
        hasty: bool = False,
    ) -> QueryResult | None:
        try:
            settings = pip_settings(self.environment) | (_HASTY if hasty else {})
            said = translated(settings, self.environment, extra=extra, alone=alone)
        except ToolchainError:
            return None  # only pip can ask there
        with scratch_folder("ask") as folder:
            target = ("--target", str(folder / "none")) if words[0] == "install" else ()
            argv = [
                self.uv, "pip", *words, "--no-deps", "--only-binary", ":all:", "--python", sys.executable,
                "--python-version", self.python_version, *target, "--no-config", "--no-python-downloads",
                "--no-progress", "--color", "never", "--cache-dir", str(folder / "cache"), *said.options,
                *(("--requirements",) if target else ()), "-",
            ]  # fmt: skip
            result = query(
                argv, env=said.environment, cwd=folder, deadline_s=_DEADLINE_S, cancel=self.cancel,
                stdin=f"{line}\n".encode(),
            )  # fmt: skip
        if self.cancel is not None:
            self.cancel.stop_here()
        return result

    def _lacks(self, wheel: Prebuilt, result: QueryResult) -> FetchError:
        said = Redactor()(result.stderr)
        lines = [line for line in said.splitlines() if not line.startswith(("Using", "warning"))]
        here = ".".join(self.python_version.split(".")[:2])
        others = [f"3.{minor}" for minor in sorted(set(map(int, _TAG.findall(said)))) if f"3.{minor}" != here]
        ways = ["let pip use an index or a wheel folder that has it"]
        if others:
            ways.insert(0, f"use Python {' or '.join(others)} (--python)")
        if _CONNECTION.search(said):
            ways.insert(0, "check the network, the proxy (HTTPS_PROXY) and the certificates (PIP_CERT)")
        return FetchError(
            f"{wheel.dist} {wheel.version} for Python {self.python_version} was not found",
            why=" ".join(" ".join(lines).split()).removeprefix("error: "),
            fix=f"{', or '.join(ways)}, then run the same command again",
            commands=("pip config list",),
            evidence={
                "distribution": wheel.dist, "version": wheel.version, "python": self.python_version,
                "other_pythons": others,
            },
        )  # fmt: skip
