"""``xpubuild fetch`` as users type it: a recipe of a site, JSON, refusals, a read-only mirror, a lock."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_served import serve
from integration.mirror_world import WHEELS, World, world
from support.cli import Xpubuild
from support.documents import check as check_document
from support.indexes import PackageIndex

_WHEEL = "demo-1.0-py3-none-any.whl"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with world(tmp_path) as made:
        recipes = tmp_path / "recipes"
        (recipes / "requirements").mkdir(parents=True)
        digest = hashlib.sha256(WHEELS[_WHEEL]).hexdigest()
        (recipes / "requirements" / "demo.txt").write_text(f"demo==1.0 --hash=sha256:{digest}\n")
        recipe = {
            "schema": 1, "name": "site", "title": "a recipe of a site", "target": "cpu", "targets": ["cpu"],
            "needs": {"python": ">=3.10"},
            "toolchain": {"requirements": ["requirements/demo.txt"]},
            "components": {"torch": {"kind": "source", "dist": "torch", "source": {
                "url": made.server.url("top.git"), "commit": made.commits["top"],
                "configure_time": [{"url": made.server.url("ops.git"), "pin_file": "ops.txt",
                                    "when": "always", "path": "third_party/ops"}]}}},
        }  # fmt: skip
        (recipes / "site.yaml").write_text(json.dumps(recipe))
        # Not what ``world`` sets: monkeypatch would set it again after that is undone.
        monkeypatch.setenv("XPUBUILD_RECIPES", str(recipes))
        yield made


def test_fetch_check_and_copy(here: World, tmp_path: Path, xpubuild: Xpubuild) -> None:
    place = str(tmp_path / "mirror")
    result = xpubuild.ok("fetch", "site", "--mirror", place, "--log-format", "plain")
    assert "4 repositories, 1 file" in result.out
    assert "torch.source" in result.err
    document = xpubuild.json("fetch", "site", XPUBUILD_MIRROR=place)
    check_document(document, "fetch")
    assert document["summary"]["new_bytes"] == 0
    assert xpubuild("check", place).status == 0
    shutil.copytree(place, tmp_path / "b")
    here.asked()
    document = xpubuild.json("fetch", "site", "--mirror", str(tmp_path / "b"), "--offline")
    assert document["status"] == "ok"
    assert here.asked() == set()


def test_damage_is_named_and_its_exit_status_is_31(here: World, tmp_path: Path, xpubuild: Xpubuild) -> None:
    place = tmp_path / "mirror"
    xpubuild.ok("fetch", "site", "--mirror", str(place), "-q")
    wheel = next(place.glob("files/*/*.whl"))
    wheel.write_bytes(b"x")
    result = xpubuild("fetch", "site", "--mirror", str(place), "--offline")
    assert result.status == 31
    assert wheel.name in result.err
    here.asked()
    document = xpubuild.json("fetch", "site", "--mirror", str(place))
    assert [item["path"] for item in document["damaged"]] == [wheel.relative_to(place).as_posix()]
    assert here.asked() == set()
    assert xpubuild("check", str(place)).status == 0


def test_offline_without_what_is_needed_ends_with_30(here: World, tmp_path: Path, xpubuild: Xpubuild) -> None:
    here.filled(tmp_path / "mirror", here.inputs(_WHEEL, commit=here.commits["next"]))
    result = xpubuild("fetch", "site", "--mirror", str(tmp_path / "mirror"), "--offline")
    assert result.status == 30
    assert here.commits["top"] in result.err
    assert xpubuild("fetch", "site", "--mirror", str(tmp_path / "nowhere"), "--offline").status == 30


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["site"], "--mirror DIR"),
        (["site", "--mirror", "m", "--for-python", "snake"], "3.10,3.11"),
        (["site", "--mirror", "m", "--for-python", ","], "must be versions"),
        (["site", "--mirror", "wheels"], "is not a mirror"),
    ],
)
def test_a_wrong_command_line_ends_with_2(
    here: World, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(here.root)
    result = xpubuild("fetch", *arguments)
    assert result.status == 2
    assert says in result.err
    assert not (here.root / "m").exists()
    assert here.asked() == set()


def test_a_python_that_the_recipe_does_not_take_is_refused(
    here: World, tmp_path: Path, xpubuild: Xpubuild
) -> None:
    place = str(tmp_path / "mirror")
    assert xpubuild("fetch", "site", "--mirror", place, "--for-python", "3.9").status == 22
    document = xpubuild.json("fetch", "site", "--mirror", place, "--for-python", "all")
    assert document["pythons"][0] == "3.10"
    assert len(document["pythons"]) >= 5
    assert here.asked() == {"top", "mid", "inner", "ops"}


def test_a_lock_is_fetched_for_as_long_as_its_recipe_is_the_same(
    here: World, tmp_path: Path, xpubuild: Xpubuild
) -> None:
    lock, place = str(tmp_path / "site.lock.yaml"), str(tmp_path / "mirror")
    xpubuild.ok("lock", "site", "-o", lock)
    document = xpubuild.json("fetch", lock, "--mirror", place)
    assert (document["recipe"], len(document["repositories"])) == ("site", 4)
    recipe = tmp_path / "recipes" / "site.yaml"
    recipe.write_text(recipe.read_text().replace(here.commits["top"], here.commits["next"]))
    result = xpubuild("fetch", lock, "--mirror", place)
    assert result.status == 21
    assert here.commits["next"] in result.err
    Path(lock).write_text(Path(lock).read_text().replace(here.commits["mid"], "0" * 40))
    assert xpubuild("fetch", lock, "--mirror", place).status == 20  # its digest is another


def test_an_offline_install_from_a_web_server(
    here: World, tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sources, with submodules and what CMake clones; nothing but the mirror's server is asked."""
    xpubuild.ok("fetch", "site", "--mirror", str(tmp_path / "mirror"), "-q")
    here.asked()
    shutil.rmtree(tmp_path / "wheels")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another user"))
    with PackageIndex(login="me:not-to-be-seen") as index:
        url = serve(index, tmp_path / "mirror").replace("://", "://me:not-to-be-seen@")
        words = ("install", "site", "--offline", "--workspace", str(tmp_path / "ws"),
                 "--until", "torch.repositories", "--log-format", "jsonl")  # fmt: skip
        first = xpubuild.ok(*words, XPUBUILD_MIRROR=url)
        index.requests.clear()
        again = xpubuild.ok(*words, "--mirror", url)
        assert index.asked() == ["/files/index.json"]
        plan = xpubuild.ok("plan", "site", "--offline", "--mirror", url, "--format", "sh").out
        away = index.at()
    # The script has no mirror: its build clones from the network.
    assert "GIT_CONFIG_GLOBAL" not in plan
    assert "GIT_ALLOW_PROTOCOL" not in plan
    assert here.asked() == set()
    assert (tmp_path / "ws/src/torch/third_party/mid/deps/inner/inner.h").read_text() == "inner\n"
    events = [json.loads(line) for line in first.err.splitlines() if line.startswith("{")]
    assert any(item.get("unit") == "bytes" for item in events)
    # The server is away: what was copied is used, and that is said.
    later = xpubuild.ok(*words, "--mirror", f"{away}/files")
    assert "cannot be reached" in later.err
    assert xpubuild(*words, "--mirror", f"{away}/elsewhere").status == 30
    said = "".join(result.out + result.err for result in (first, again, later)) + plan
    assert "not-to-be-seen" not in said
    for folder in ("ws", "another user"):
        for path in (tmp_path / folder).rglob("*"):
            assert not path.is_file() or b"not-to-be-seen" not in path.read_bytes(), path


@pytest.mark.parametrize("command", ["install"])
def test_a_url_that_is_none_ends_with_2(xpubuild: Xpubuild, command: str) -> None:
    result = xpubuild(command, "site", "--mirror", "ftp://me:not-to-be-seen@mirror.example/x")
    assert result.status == 2
    assert "https://HOST/PATH" in result.err
    assert "not-to-be-seen" not in result.err


def test_fetch_writes_to_no_server(xpubuild: Xpubuild) -> None:
    result = xpubuild("fetch", "site", "--mirror", "https://me:not-to-be-seen@mirror.example/x", "--json")
    assert result.status == 2
    assert "rsync" in result.out
    assert "not-to-be-seen" not in result.out + result.err
