"""What of a release is looked up, and what is left open: with upstreams that are made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from xpubuild.errors import XpuBuildError
from xpubuild.recipe import bump as looked_up
from xpubuild.recipe.bump import Bump, bump
from xpubuild.recipe.model import LoadedRecipe, Recipe
from xpubuild.recipe.upstream import Tag, Tree, newest, release_tags, version_of

OLD, NEW, OPS, LLVM, TRITON = ("0123456789"[number] * 40 for number in range(1, 6))


def source(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "source", "dist": name, "source": {"url": f"/{name}", "ref": "v1", "commit": OLD, **more}}


def loaded(**components: Any) -> LoadedRecipe:
    pins = [{"url": "/ops", "pin_file": "xpu.txt"}, {"url": "/b"}, {"url": "/c", "pin_file": "dnn.cmake"}]
    archive = {"url": "https://h/l.zip", "variable": "L", "pin_file": "llvm.txt"}
    torch = {**source("torch", configure_time=pins)}
    triton = {
        **source("triton"),
        "version": "3.8.0",
        "build": {"archives": {"llvm": archive, "b": {"variable": "B"}}},
    }
    vision = {**source("vision"), "version": "0.30.0"}
    document = {
        "schema": 1, "name": "9.8", "title": "t", "release": "9.8.0",
        "components": {"torch": torch, "triton": triton, "vision": vision, **components},
    }  # fmt: skip
    kept = {key: value for key, value in document["components"].items() if value}
    document["components"] = kept
    recipe = Recipe.model_validate(document)
    return LoadedRecipe(recipe=recipe, path=Path("9.8.yaml"), folders=(), document=document)


FILES: dict[str, str] = {
    "version.txt": "9.8.1a0 more", "xpu.txt": OPS, "dnn.cmake": "GIT_TAG v3.7.1\n", "llvm.txt": LLVM,
    ".ci/docker/ci_commit_pins/triton-xpu.txt": TRITON, ".ci/docker/triton_version.txt": "3.8.1",
}  # fmt: skip
TAGS = {
    "/torch": ("v9.8.0", "v9.8.1", "v9.9.0", "v9.10.0"), "/vision": ("v0.30.0", "v0.30.1", "v0.31.0"),
    "/audio": (),
}  # fmt: skip


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    files = dict(FILES)

    def tags(_: object, url: str) -> list[Tag]:
        return [Tag(name, NEW) for name in TAGS[url]]

    monkeypatch.setattr(looked_up, "release_tags", tags)
    monkeypatch.setattr(
        Tree, "fetched", classmethod(lambda cls, store, url, _tag, commit: cls(store, url, commit))
    )
    monkeypatch.setattr(Tree, "text", lambda _, path: files.get(path))
    return files


def found(monkeypatch: pytest.MonkeyPatch, wanted: str, base: LoadedRecipe) -> Bump:
    monkeypatch.setattr(looked_up, "available", lambda: {"9.8": Path("9.8.yaml")})
    monkeypatch.setattr(looked_up, "load", lambda _: base)
    older = SimpleNamespace(recipe=base.recipe, line="9.8")
    monkeypatch.setattr(looked_up, "releases", lambda: [older])
    return bump(wanted, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("wanted", ["9.8", "9.9.0"])
@pytest.mark.parametrize(
    "components",
    [
        {}, {"triton": None}, {"vision": {**source("vision"), "version": "0.30.0", "end_of_life": "2025"}},
        {"vision": {**source("vision", ref=None), "version": "0.30.0"}}, {"vision": source("vision")},
        {"audio": {**source("audio"), "version": "1.0.0"}, "vision": None},
        {"vision": {"kind": "wheel", "dist": "v", "version": "1", "indexes": ["https://i"]}},
    ],
    ids=range(7),
)  # fmt: skip
def test_a_release_is_looked_up(
    upstream: dict[str, str], monkeypatch: pytest.MonkeyPatch, wanted: str, components: dict[str, Any]
) -> None:
    assert found(monkeypatch, wanted, loaded(**components)).proposals


@pytest.mark.parametrize("gone", sorted(FILES))
def test_what_a_file_does_not_state_is_left_open(
    upstream: dict[str, str], monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    upstream[gone] = "two words" if gone != "version.txt" else ""
    assert found(monkeypatch, "9.8", loaded()).release == "9.8.1"
    del upstream[gone]
    assert found(monkeypatch, "9.8", loaded()).release == "9.8.1"


def test_the_version_of_triton_for_xpu_comes_first(
    upstream: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream[".ci/docker/triton_xpu_version.txt"] = "3.9.9"
    made = found(monkeypatch, "9.8", loaded())
    (item,) = (item for item in made.proposals if item.key == "components.triton.version")
    assert (item.upstream, item.recipe) == ("3.9.9", "3.8.0")
    assert item.source == f".ci/docker/triton_xpu_version.txt of /torch at {NEW}"


@pytest.mark.parametrize("wanted", ["main", "9", "9.8.1.2", "9.8.7", "8.0", "9.7"])
def test_what_cannot_be_looked_up(
    upstream: dict[str, str], monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    with pytest.raises(XpuBuildError):
        found(monkeypatch, wanted, loaded())


def test_a_recipe_without_a_torch(upstream: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(XpuBuildError):
        found(monkeypatch, "9.8", loaded(torch=None, triton=None))


def test_tags_of_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("v1.10.0", "v1.9", "v1.9.1-rc1", "1.0", "v2", "v1.2.3.4", "x-v1.0")
    monkeypatch.setattr("xpubuild.recipe.upstream.remote_tags", lambda *_, **__: dict.fromkeys(names, NEW))
    store = SimpleNamespace(git=None, cancel=None)
    tags = release_tags(store, "/torch")  # type: ignore[arg-type]
    assert [tag.name for tag in tags] == ["v1.2.3.4", "v1.9", "v1.10.0"]
    assert tags[0].commit == NEW
    best = newest(tags, lambda version: version < Version("1.10"))
    assert best is not None
    assert best.name == "v1.9"
    assert newest([], lambda _: True) is None
    assert [version_of(text) for text in (None, "", "x", "1.0")] == [None, None, None, Version("1.0")]
