"""Proposals for a release as a document and as a recipe, whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xpubuild.recipe.bump import Bump, changed
from xpubuild.recipe.bump_text import document, recipe_text
from xpubuild.recipe.model import LoadedRecipe, Recipe

OLD, NEW = "1" * 40, "2" * 40
BASE: dict[str, Any] = {
    "schema": 1, "name": "9.8", "title": "t", "release": "9.8.0",
    "components": {
        "torch": {
            "kind": "source", "dist": "torch",
            "source": {
                "url": "https://github.com/pytorch/pytorch.git", "ref": "v9.8.0", "commit": OLD,
                "configure_time": [{"url": "/ops", "pin_file": "xpu.txt", "commit": OLD}, {"url": "/b"}],
            },
            "build": {"env": {"BUILD_VERSION": "9.8.0", "OTHER": "9.8.0.1", "COUNT": 9}},
        },
        "triton": {"kind": "source", "dist": "triton", "version": "3.8.0",
                   "source": {"url": "https://host/triton", "ref": "release/3.8", "commit": OLD}},
        "vision": {"kind": "source", "dist": "torchvision", "version": "0.30.0",
                   "requires": ["torch==9.8.0", "pillow"],
                   "source": {"url": "https://host/vision.git", "ref": "v0.30.0", "commit": OLD},
                   "build": {"env": {"V": "0.30.0", "T": "9.8.0"}}},
        "audio": {"kind": "source", "dist": "torchaudio", "source": {"url": "/audio"}},
        "ops": {"kind": "source", "dist": "ops", "source": {"embedded": "ops"}},
    },
}  # fmt: skip
LOADED = LoadedRecipe(recipe=Recipe.model_validate(BASE), path=Path("9.8.yaml"), folders=(), document=BASE)
TORCH = {
    "release": "9.8.1", "components.torch.source.ref": "v9.8.1", "components.torch.source.commit": NEW,
}  # fmt: skip


@pytest.mark.parametrize(
    ("release", "values"),
    [
        ("9.8.1", TORCH), ("9.8.0", {"release": "9.8.0", "components.torch.source.ref": "v9.8.0"}),
        ("9.9.0", {**TORCH, "components.torch.source.configure_time.0.commit": NEW}),
        ("9.8.1", {**TORCH, "components.triton.source.commit": NEW, "components.triton.version": "3.8.1"}),
        ("9.8.1", {**TORCH, "components.triton.source.commit": OLD}),
        ("9.8.1", {**TORCH, "components.vision.source.ref": "v0.30.1",
                   "components.vision.source.commit": NEW, "components.vision.version": "0.30.1"}),
        ("9.8.1", {**TORCH, "components.audio.source.commit": NEW}),
        ("9.8.1", {**TORCH, "components.ops.source.commit": NEW}),
    ],
    ids=range(8),
)  # fmt: skip
def test_a_recipe_of_what_was_found(release: str, values: dict[str, str]) -> None:
    found = Bump(release, LOADED, open=["somebody has to look"])
    for key, value in values.items():
        found.add(key, value, f"source of {key}")
    assert document(found)["text"] == recipe_text(found)
    assert {item.key for item in changed(found)} <= set(values)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("release", "9.8.0"), ("components.torch.source.configure_time.0.commit", OLD),
        ("components.torch.source.configure_time.1.commit", None),
        ("components.torch.source.configure_time.2.commit", None), ("release.x", None), ("nothing", None),
    ],
)  # fmt: skip
def test_what_the_recipe_has_at_a_key(key: str, value: str | None) -> None:
    assert Bump("9.8.1", LOADED).value(key) == value
