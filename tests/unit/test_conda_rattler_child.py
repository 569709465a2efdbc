"""The process that calls py-rattler: what it asks of it, with a stand-in for the library."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from xpubuild.supply.conda import rattler_child


class SolverError(Exception):
    """One of rattler's exceptions."""


class Library:
    """A stand-in for rattler that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.records: list[Any] = []
        self.raises: Exception | None = None

    def noting(self, name: str) -> Any:
        def note(*arguments: Any, **options: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
            return (name, arguments, options)

        return note

    async def solve(self, **options: Any) -> list[Any]:
        return await self._answer("solve", options)

    async def install(self, records: list[Any], **options: Any) -> None:
        await self._answer("install", {"records": len(records), **options})

    async def index(self, folder: Path, **options: Any) -> None:
        await self._answer("index", {"folder": folder, **options})

    async def _answer(self, what: str, options: dict[str, Any]) -> list[Any]:
        self.asked.append((what, options))
        if self.raises is not None:
            raise self.raises
        return self.records


def module(name: str, **parts: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(parts)
    return made


def package(name: str, **more: Any) -> SimpleNamespace:
    given = {"sha256": b"\1" * 32, "md5": b"\2" * 16, "size": 5, "depends": ("a", "b"), **more}
    filename = f"{name}-1-0.conda"
    shown = SimpleNamespace(normalized=name)
    return SimpleNamespace(name=shown, version="1", file_name=filename, url=f"https://h/{filename}", **given)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    names = ("GenericVirtualPackage", "PackageName", "Version", "Gateway", "Channel")

    def from_path(path: Path) -> SimpleNamespace:
        return SimpleNamespace(
            into_repo_data=lambda channel: [*made.records] if path.parent.name == "a" else []
        )

    rattler = module(
        "rattler", solve=made.solve, install=made.install, RepoData=SimpleNamespace(from_path=from_path),
        **{name: made.noting(name) for name in names},
    )  # fmt: skip
    exceptions = module("rattler.exceptions", SolverError=SolverError, other=3, text=str)
    rattler.exceptions = exceptions  # type: ignore[attr-defined]
    for each in (
        rattler, exceptions, module("rattler.package", BuildString=made.noting("BuildString")),
        module("rattler.index", index_fs=made.index),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, each.__name__, each)
    return made


def answered(job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(job).encode())))
    assert rattler_child.main() == 0
    return json.loads(capsys.readouterr().out)


SOLVE = {
    "action": "solve", "channels": ["c"], "specs": ["s"], "platform": "p", "cache": "/k",
    "virtual": [["__glibc", "2.28", "0"]],
}  # fmt: skip


def test_it_solves(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library.records = [package("x"), package("y", sha256=None, md5=None, size=None)]
    assert answered(SOLVE, monkeypatch, capsys) == {"ok": [
        {"name": "x", "version": "1", "filename": "x-1-0.conda", "url": "https://h/x-1-0.conda",
         "sha256": "01" * 32, "md5": "02" * 16, "size": 5, "depends": ["a", "b"]},
        {"name": "y", "version": "1", "filename": "y-1-0.conda", "url": "https://h/y-1-0.conda",
         "sha256": "", "md5": "", "size": None, "depends": ["a", "b"]},
    ]}  # fmt: skip
    ((what, options),) = library.asked
    assert what == "solve"
    assert options == {
        "sources": ["c"], "specs": ["s"], "platforms": ["p", "noarch"],
        "virtual_packages": [("GenericVirtualPackage", (
            ("PackageName", ("__glibc",), {}), ("Version", ("2.28",), {}), ("BuildString", ("0",), {})), {})],
        "gateway": ("Gateway", (), {"cache_dir": Path("/k")}),
    }  # fmt: skip


def test_it_installs_what_has_the_hashes_of_the_lock(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "repodata.json").write_text("{}")
    library.records = [package("y"), package("x")]
    job = {
        "action": "install", "folder": str(tmp_path), "prefix": "/p", "cache": "/k",
        "sha256": {"x-1-0.conda": "01" * 32, "y-1-0.conda": "01" * 32},
    }  # fmt: skip
    assert answered(job, monkeypatch, capsys) == {"ok": ["x", "y"]}
    assert library.asked == [
        ("index", {"folder": tmp_path, "write_zst": False, "write_shards": False, "force": True}),
        ("install", {
            "records": 2, "target_prefix": "/p", "cache_dir": Path("/k"), "installed_packages": [],
            "execute_link_scripts": False, "show_progress": False,
        }),
    ]  # fmt: skip
    library.records = [package("x", sha256=None), package("z")]
    assert answered(job, monkeypatch, capsys) == {
        "error": "failed", "kind": "ValueError",
        "message": "the index of the archives differs from the lock: x-1-0.conda, y-1-0.conda, z-1-0.conda",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (SolverError("no way"), {"error": "unsatisfiable", "kind": "SolverError", "message": "no way"}),
        (OSError("full"), {"error": "failed", "kind": "OSError", "message": "full"}),
        (ImportError("no rattler"), {"error": "missing", "message": "no rattler"}),
    ],
)
def test_what_fails_is_told_by_its_kind(
    library: Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    error: Exception, answer: dict[str, str],
) -> None:  # fmt: skip
    library.raises = error
    assert answered(SOLVE, monkeypatch, capsys) == answer


def test_the_kinds_of_rattlers_exceptions() -> None:
    assert rattler_child.KINDS == {
        "SolverError": "unsatisfiable", "GatewayError": "unreachable", "FetchRepoDataError": "unreachable",
        "InvalidMatchSpecError": "invalid", "InvalidChannelError": "invalid", "InvalidUrlError": "invalid",
    }  # fmt: skip
