"""No file of the project names the machine it was written on, or a package registry."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
_BINARY = {".bundle", ".whl", ".png", ".zip", ".gz", ".xz", ".db"}
# Cut in two, so that this file does not contain them.
WELL_KNOWN = (
    *(f"{name}.org" for name in ("pypi", "pythonhosted", "npmjs", "debian", "conda.anaconda")),
    *(f"{name}.ubuntu.com" for name in ("archive", "security")),
)
# Upstream of what is built; recipes must name them.
UPSTREAM = {"download.pytorch.org", "github.com"}


def tracked() -> Iterator[Path]:
    """Return every file that git has or would add; without git, every file that is no cache."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        argv = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
        candidates = [ROOT / name for name in names if name]
    else:
        folders = ("xpubuild", "recipes", "scripts", "tests", "docs", ".ci")
        candidates = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    for path in candidates:
        if path.is_file() and path.suffix not in _BINARY and "__pycache__" not in path.parts:
            yield path


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    found = {str(path.relative_to(ROOT)): path.read_text("utf-8", errors="replace") for path in tracked()}
    assert {"Makefile", "xpubuild/errors.py", "tests/conftest.py"} <= found.keys()
    return found


def pip_hosts() -> Iterator[str]:
    # pip's own constants: the index it uses where nothing is configured.
    program = "from pip._internal.models.index import PyPI; print(PyPI.netloc, PyPI.file_storage_domain)"
    yield from subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    for url in re.findall(r"https?://[^\s'\"]+", listing):
        yield urlsplit(url).hostname or ""


def apt_hosts() -> Iterator[str]:
    places = [Path("/etc/apt/sources.list"), *Path("/etc/apt").glob("sources.list.d/*")]
    for path in places:
        if path.is_file():
            for url in re.findall(r"https?://[^\s'\"]+", path.read_text("utf-8", errors="replace")):
                yield urlsplit(url).hostname or ""


def registry_hosts() -> set[str]:
    found = {*WELL_KNOWN, *pip_hosts(), *apt_hosts()}
    return {host for host in found if "." in host and not host.startswith("127.")} - UPSTREAM


def nowhere(pattern: re.Pattern[str], texts: dict[str, str]) -> None:
    wrong = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_names_a_package_registry(texts: dict[str, str]) -> None:
    hosts = registry_hosts()
    assert len(hosts) >= len(WELL_KNOWN)
    # LICENSE and upstream's own names ("PyPI") are no host names; only whole host names count.
    pattern = re.compile("|".join(rf"(?<![\w-]){re.escape(host)}(?![\w-])" for host in sorted(hosts)))
    nowhere(pattern, texts)


def test_no_file_names_a_place_on_the_machine_of_its_author(texts: dict[str, str]) -> None:
    home = pwd.getpwuid(os.getuid()).pw_dir
    # A parent that is everybody's, such as the folder for temporary files, is no place of the author's.
    shared = {tempfile.gettempdir(), "/tmp", "/var/tmp", "/srv", "/opt", "/home"}
    places = {str(ROOT), home, *({str(ROOT.parent)} - shared)}
    # A checkout in / or a home that is / would forbid every path.
    # Where it is the end of another path it is no such place: /opt/rh/gcc-toolset-13/root.
    named = (rf"(?<![\w.}}-]){re.escape(place)}/\w" for place in sorted(places) if len(place) > 1)
    pattern = re.compile("|".join(named))
    nowhere(pattern, texts)


def test_text_files_end_with_a_newline_and_use_no_tabs_but_where_they_must(texts: dict[str, str]) -> None:
    wrong = []
    for name, text in texts.items():
        if text and not text.endswith("\n"):
            wrong.append(f"{name}: no newline at its end")
        if "\t" in text and Path(name).suffix in {".py", ".yaml", ".toml", ".md"}:
            wrong.append(f"{name}: a tab")
    assert not wrong, "\n".join(wrong)
