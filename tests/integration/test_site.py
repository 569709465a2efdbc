"""The documentation as a site: every page is built, links are checked, and a browser finds nothing wrong.

The whole site is built on demand and for each release; that links of pages lead somewhere is tested in
tests/unit/test_docs_pages.py too.
"""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.imports import ROOT

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG"))])


def build(source: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """Run what scripts/release.sh runs."""
    script = (ROOT / "scripts" / "release.sh").read_text()
    line = re.findall(r'^"\$python" (-m sphinx .*) site$', script, re.MULTILINE)
    argv = [sys.executable, *line[0].split(), "-d", str(into.parent / "trees"), str(into)]
    return subprocess.run(argv, cwd=source, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("site") / "html"
    done = build(ROOT, into)
    assert done.returncode == 0, done.stderr
    return into


@pytest.mark.on_demand
@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_every_page_is_built_and_can_be_reached_from_the_sidebar(site: Path) -> None:
    first = (site / "index.html").read_text("utf-8")
    for page in PAGES:
        name = page.relative_to(ROOT).with_suffix(".html").as_posix()
        assert (site / name).is_file(), name
        below_another = name.startswith(("docs/checks/", "docs/evidence/", "docs/decisions/"))
        below_another = below_another or name == "README.html"
        assert below_another or f'href="{name}"' in first, name


@pytest.mark.on_demand
@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_no_page_asks_another_server_for_anything(site: Path) -> None:
    asked = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:)?//[^"]+"')
    wrong = [page.name for page in site.rglob("*.html") if asked.search(page.read_text("utf-8"))]
    assert not wrong


@pytest.mark.parametrize(
    ("link", "status"), [("docs/c.md", 1), ("docs/b.md#two", 1), ("docs/b.md#b-page", 0)]
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, link: str, status: int) -> None:
    files = {
        "README.md": f"# First\n\n[a link]({link})\n",
        "CHANGELOG.md": "# Changes\n",
        "CONTRIBUTING.md": "# Contributing\n",
        "docs/README.md": "# Documentation\n\nReference\n\n- [b](b.md)\n",
        **{f"docs/{name}.md": f"# {name}\n" for name in ("tutorial", "architecture", "identity")},
        "docs/b.md": "# B page\n",
        "xpubuild/__init__.py": '__version__ = "1.0"\n',
    }
    for name, text in files.items():
        (tmp_path / "top" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "top" / name).write_text(text)
    shutil.copytree(ROOT / "scripts" / "site", tmp_path / "top" / "scripts" / "site")
    done = build(tmp_path / "top", tmp_path / "html")
    assert done.returncode == status, done.stderr


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep the output clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.on_demand
@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "shows"),
    [
        ("index.html", "Quickstart"),
        ("docs/how-to/doctor.html", "Check a host"),
        ("docs/reference/cli.html", "xpubuild install"),
        ("search.html?q=libfabric", "shadow.libfabric"),
    ],
)
def test_a_browser_shows_pages_and_finds_words_without_an_error(
    address: str, page: str, shows: str, tmp_path: Path
) -> None:
    """The page after its scripts have run, and what they and the browser said."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (package chromium)")
    argv = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", f"{address}/{page}",
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    body = done.stdout.partition('<article role="main"')[2]
    assert shows in body
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not console
