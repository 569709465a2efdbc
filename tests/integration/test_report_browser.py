"""The page of ``status --html`` in a real browser: console, network, overflow, accessibility, print."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import report_world

from xpubuild.cli.report_json import unfit
from xpubuild.ui.report.page import page
from xpubuild.workspace.report import report_document

pytestmark = [pytest.mark.on_demand, pytest.mark.slow, pytest.mark.needs("ninja")]
WIDTHS = (390, 820, 1440)
_OVERFLOW = "document.documentElement.scrollWidth - window.innerWidth"
_OPEN = "document.querySelectorAll('details').forEach(element => element.open = true)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    file = folder / "page.html"
    file.write_text(page(report_document(report_world.make(folder / "ws", fails=True), unfit)), "utf-8")
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="tests/integration/test_report_browser.py installs playwright"
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (package chromium)")
    with playwright.sync_playwright() as tools:
        yield tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wrong_at_any_width(browser: Any, report: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900}
    shown = browser.new_page(viewport=size, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("dialog", lambda dialog: said.append(dialog.message))
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(report.as_uri())
    assert shown.evaluate(_OVERFLOW) <= 0
    shown.evaluate(_OPEN)
    assert shown.evaluate(_OVERFLOW) <= 0
    assert said == []
    assert asked == [report.as_uri()]
    shown.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_no_barrier(browser: Any, report: Path, width: int, scheme: str) -> None:
    """axe-core is a script, which the page's own policy would not let in."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="tests/integration/test_report_browser.py installs it"
    )
    size = {"width": width, "height": 900}
    shown = browser.new_page(viewport=size, color_scheme=scheme, bypass_csp=True)
    shown.goto(report.as_uri())
    shown.evaluate(_OPEN)
    found = axe.Axe().run(shown).response["violations"]
    assert [(item["id"], [node["html"] for node in item["nodes"]]) for item in found] == []
    shown.close()


def test_the_keyboard_reaches_the_report_first(browser: Any, report: Path) -> None:
    shown = browser.new_page(viewport={"width": 820, "height": 900})
    shown.goto(report.as_uri())
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.getAttribute('href')") == "#main"
    shown.keyboard.press("Enter")
    assert shown.url.endswith("#main")
    shown.close()


def test_paper_has_what_is_folded_on_the_screen(browser: Any, report: Path) -> None:
    shown = browser.new_page(viewport={"width": 794, "height": 1123})
    shown.goto(report.as_uri())
    high = "document.querySelector('details').getBoundingClientRect().height"
    folded = shown.evaluate(high)
    shown.emulate_media(media="print")
    assert shown.evaluate(high) > 1.5 * folded
    assert shown.evaluate(_OVERFLOW) <= 0
    shown.close()
