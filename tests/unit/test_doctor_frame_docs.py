"""A page for each check: from the class alone, linked both ways, and stray ones are seen."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.imports import ROOT

from xpubuild.doctor.registry import arranged, shipped

SCRIPTS = ROOT / "scripts"


def script(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    module = script("doctor_pages_of_test", SCRIPTS / "docgen" / "doctor_pages.py", monkeypatch)
    found: dict[str, str] = module.pages()
    return found


def test_every_check_has_a_page_and_a_row_in_the_index(pages: dict[str, str]) -> None:
    checks = arranged(shipped())
    assert set(pages) == {"checks/README.md", *(f"checks/{check.id}.md" for check in checks)}
    for check in checks:
        page = pages[f"checks/{check.id}.md"]
        assert check.title in page
        assert check.explanation.strip().splitlines()[0] in page
        assert f"xpubuild doctor --only {check.id}" in page
        assert f"[{check.id}]({check.id}.md)" in pages["checks/README.md"]


def test_links_between_the_pages_lead_somewhere(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            path = f"checks/{target}"
            assert path in pages or (ROOT / "docs" / "checks" / target).resolve().exists(), (
                f"{name}: {target}"
            )


def test_a_page_of_a_check_that_is_gone_is_stray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("generate_docs_of_test", SCRIPTS / "generate-docs.py", monkeypatch)
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "gpu.gone.md").write_text("old")
    (tmp_path / "checks" / "gpu.here.md").write_text("new")
    assert module._stray({"checks/gpu.here.md": "new"}, tmp_path) == ["checks/gpu.gone.md"]
