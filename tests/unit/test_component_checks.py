"""verify --require of a component that has its check in its own file: found, passed on, part of the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import Xpubuild
from support.fake_target import FakeTarget
from support.plans import pinned, plan_of

from xpubuild.verify.suite import registry
from xpubuild.workspace.layout import Layout

CHECK = {"package": "torchcodec", "run": ["assert torch"]}
CODEC = """\
schema: 1
name: codec
title: t
extends: base
abstract: true
components:
  codec:
    kind: source
    dist: torchcodec
    source: {url: "https://host/codec.git", commit: 0123456789abcdef0123456789abcdef01234567}
    check: {package: torchcodec, run: [assert torch]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the components of a site; what is declared here is forgotten afterwards."""
    monkeypatch.setattr(registry, "PARTS", dict(registry.PARTS))
    monkeypatch.setattr(registry, "_CHECKS", dict(registry.discover()))
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path / "site"))
    place = tmp_path / "site" / "components"
    place.mkdir(parents=True)
    (place / "codec.yaml").write_text(CODEC)
    return place


def verified(xpubuild: Xpubuild, target: FakeTarget, part: str, status: int = 0) -> dict[str, Any]:
    words = ("--python", str(target.python), "--device", "cpu", "--only", "import.torch", "--json")
    answer = xpubuild("verify", *words, "--require", part)
    assert answer.status == status, answer.err
    return dict(answer.document())


def test_the_check_of_a_component_is_run_and_reported_as_those_of_other_parts(
    tmp_path: Path, xpubuild: Xpubuild
) -> None:
    target = FakeTarget(tmp_path / "env", {})
    document = verified(xpubuild, target, "codec")
    own = {check["id"]: check["title"] for check in document["checks"] if check["group"] == "codec"}
    assert own == {"codec.import": "torchcodec can be imported", "codec.run": "codec works"}
    assert document["asked"] == ["import.torch", *own]
    words = target.runs()[-1]["words"]
    assert words[words.index("--require") + 1] == "codec"
    assert json.loads(words[words.index("--option") + 1].removeprefix("check.codec=")) == CHECK
    target = FakeTarget(tmp_path / "other", {"codec.import": "fail"})
    assert verified(xpubuild, target, "codec", 70)["summary"]["fail"] == 1


def test_a_component_without_a_check_cannot_be_required(
    tmp_path: Path, folder: Path, xpubuild: Xpubuild
) -> None:
    (folder / "codec.yaml").write_text("".join(CODEC.splitlines(keepends=True)[:-1]))
    target = FakeTarget(tmp_path / "env", {})
    said = verified(xpubuild, target, "codec", 2)["error"]
    assert (said["what"], said["why"]) == (
        "the component 'codec' has no check that --require could run",
        f"{folder / 'codec.yaml'} has no components.codec.check",
    )
    assert "part 'codecs'" in verified(xpubuild, target, "codecs", 2)["error"]["what"]
    assert "is not the check" in verified(xpubuild, target, str(folder / "codec.yaml"), 2)["error"]["what"]


def test_install_requires_what_has_a_check_and_keeps_it_in_the_workspace(
    tmp_path: Path, folder: Path, xpubuild: Xpubuild
) -> None:
    (folder / "codec.yaml").unlink()
    both = {"torch": pinned("torch"), "codec": pinned("codec", more={"check": CHECK})}
    plan, before = plan_of(components=both), plan_of(components={**both, "codec": pinned("codec")})
    ((path, text),) = set(plan.files.items()) - set(before.files.items())
    step = plan.step("verify")
    words = step.commands[0].argv
    assert (path, words[words.index("--require") + 1]) == ("/ws/build/checks/codec.json", path)
    assert plan.lock_digest == before.lock_digest
    assert plan.fingerprints["verify"] != before.fingerprints["verify"]
    kept = Layout(tmp_path).checks / "codec.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(text)
    document = verified(xpubuild, FakeTarget(tmp_path / "env", {}), str(kept))
    assert document["asked"] == ["import.torch", "codec.import", "codec.run"]
