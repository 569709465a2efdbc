"""A lock compared with what is there: differences and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.locks import example, oid, sha

from xpubuild.errors import XpuBuildError
from xpubuild.install import lock_model as model
from xpubuild.install import locked_options as options
from xpubuild.install.lock import _places, short_version
from xpubuild.install.lock_check import Verdict
from xpubuild.install.lock_compare import Difference, compare, differences
from xpubuild.install.lock_file import dump
from xpubuild.install.lock_parts import clean_environment, recipe_part
from xpubuild.install.locked_archives import LockedArchivesProof, borrowed_archives, locked_archives
from xpubuild.install.locked_options import mismatch, options_of, require_tree, resolved_of, with_known_hashes
from xpubuild.install.open_wheels import LockedWheelProof
from xpubuild.install.options import is_lock
from xpubuild.install.planner import Archive as Wanted
from xpubuild.recipe.model import Recipe

LOCK = example()


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


class _Evidence:
    """A proof that gives what a test says."""

    def __init__(self, **evidence: Any) -> None:
        self._evidence = evidence

    def describe(self) -> str:
        return "archives are there"

    def key(self) -> dict[str, Any]:
        return {"a": 1}

    def check(self) -> dict[str, Any]:
        return self._evidence


ARCHIVE = model.Archive(
    component="triton", name="llvm", url="https://h/l.tar.gz", sha256=sha("llvm"), size=5,
    hash_from="first download",
)  # fmt: skip


def test_archives_are_those_of_the_lock() -> None:
    item = {"name": "llvm", "url": "https://h/l.tar.gz", "sha256": ARCHIVE.sha256}
    proof = LockedArchivesProof(_Evidence(archives=[item]), (ARCHIVE,))  # type: ignore[arg-type]
    assert proof.check() == {"archives": [item]}
    assert (proof.describe(), proof.key()) == ("archives are there, as locked", {"a": 1})
    for changed in ({**item, "sha256": sha("other")}, {**item, "name": "json"}):
        wrong = LockedArchivesProof(_Evidence(archives=[item, changed]), (ARCHIVE,))  # type: ignore[arg-type]
        refuses(wrong.check)


def test_archives_with_hashes_that_are_known() -> None:
    lock = example(archives=(ARCHIVE,))
    url = "https://me:word@h/l.tar.gz"
    wanted = [
        Wanted("triton", "llvm", url), Wanted("triton", "json", "https://h/j.zip"), Wanted("a", "open", None),
        Wanted("triton", "stated", "https://h/s.zip", sha("s")), Wanted("other", "llvm", url),
    ]  # fmt: skip
    assert [item.key for item in borrowed_archives(wanted, lock)] == [
        "a.open", "other.llvm", "triton.json", "triton.llvm", "triton.stated",
    ]  # fmt: skip


def test_an_archive_from_nowhere_cannot_be_locked(tmp_path: Path) -> None:
    class Facts:
        cache = tmp_path
        downloads = type("Downloads", (), {"mirror": None, "offline": True})

    for url in (None, "https://h/l.tar.gz"):
        wanted = [Wanted("triton", "llvm", url)]
        refuses(lambda wanted=wanted: locked_archives(wanted, Facts(), print, None))  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    "install",
    [
        [{"metadata": {"name": "Triton_XPU"},
         "download_info": {"archive_info": {"hashes": {"sha256": "1" * 64}}}}],
        [{"metadata": {"name": "triton-xpu"},
         "download_info": {"archive_info": {"hashes": {"sha256": "2" * 64}}}}],
        [{"metadata": {"name": "other"}}], [{"metadata": {"name": "triton-xpu"}}], [],
    ],
    ids=range(5),
)  # fmt: skip
def test_the_installed_wheel_is_that_of_the_lock(tmp_path: Path, install: list[Any]) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"install": install}))
    proof = LockedWheelProof(str(report), "triton-xpu", (f"sha256:{'1' * 64}", f"sha256:{'3' * 64}"))
    assert (proof.describe(), proof.key()) == ("the wheel of triton-xpu matches the lock", {})
    if install and "1" * 64 in str(install):
        assert proof.check() == {"sha256": "1" * 64}
    else:
        refuses(proof.check)


TORCH = LOCK.repositories["torch"]
CHECKOUT: dict[str, Any] = {
    "commit": TORCH.commit, "tree": TORCH.tree,
    "submodules": [{"path": item.path, "url": item.url, "commit": item.commit} for item in TORCH.submodules],
}  # fmt: skip


@pytest.mark.parametrize(
    ("component", "changes"),
    [
        ("torch", {}), ("vision", {}), ("torch", {"tree": oid("other")}), ("torch", {"commit": oid("other")}),
        ("torch", {"submodules": CHECKOUT["submodules"][:1]}),
        ("torch", {"submodules": [{**item,
         "url": "https://me:x@elsewhere/x"} for item in CHECKOUT["submodules"]]}),
        ("ops", {"commit": oid("own ops"), "tree": oid("own tree"),
                 "submodules": [{"path": "a\udce9", "url": "/tmp/x/inner.git", "commit": oid(3)}]}),
    ],
    ids=range(7),
)  # fmt: skip
def test_a_checkout_is_that_of_the_lock(component: str, changes: dict[str, Any]) -> None:
    evidence = {**CHECKOUT, **changes}
    if component == "torch" and not changes:
        require_tree(LOCK, component, evidence)
    else:
        refuses(lambda: require_tree(LOCK, component, evidence))


def difference(number: int) -> Difference:
    return Difference(f"options.x{number}", number, None, f"options.x{number}: other")


@pytest.mark.parametrize(
    "found",
    [
        [difference(1)], [Difference("plan", 1, 2, "the plan"), Difference("recipe.digest", 1, 2, "digest"),
         difference(2)],
        [difference(number) for number in range(15)], [difference(number) for number in range(12)],
    ],
    ids=range(4),
)  # fmt: skip
def test_what_differs_is_told_by_what_says_most(found: list[Difference]) -> None:
    error = mismatch(LOCK, found)
    assert "options.x" in error.what
    assert error.why.count(";") == min(len(found), 13) - 1
    assert ("and 3 more" in error.why) == (len(found) == 15)
    assert error.commands == ("xpubuild lock 2.8",)
    assert mismatch(LOCK, found, fix="do this").fix == "do this"


def tree(name: str, old: Any, new: Any) -> Difference:
    return Difference(f"repositories.{name}", old, new, "x")


@pytest.mark.parametrize(
    "found",
    [
        [], [tree("torch.tree", "1", "2")], [tree("torch.tree", "1", "2"), tree("torch.commit", "3", "4")],
        [tree("torch.tree", None, "2")], [tree("torch.tree", "1", None)], [tree("a.tree", 1, 2),
         tree("b.commit", 1, 2)],
    ],
    ids=range(6),
)  # fmt: skip
def test_the_verdict_on_a_lock(found: list[Difference]) -> None:
    verdict = Verdict(LOCK, "compatible", tuple(found), ("triton",))
    error = verdict.error()
    document = verdict.document()
    assert document["status"] == ("differs" if found else "ok")
    assert (error is None) == (not found)
    if error is not None:
        assert error.document == document
        with pytest.raises(XpuBuildError):
            raise error


RECIPE: dict[str, Any] = {
    "schema": 1, "name": "2.8", "title": "t",
    "components": {
        name: {"kind": "source", "dist": name, "source": {"url": f"https://github.com/{name}.git",
        "ref": "v2.8.0"}}
        for name in ("torch", "ops", "triton", "vision")
    },
    "variants": {"small": {}},
}  # fmt: skip


def recipe(**changes: Any) -> Recipe:
    return Recipe.model_validate({**RECIPE, **changes})


def changed(**changes: Any) -> model.Lock:
    return example(options=LOCK.options.model_copy(update=changes))


@pytest.mark.parametrize(
    ("lock", "python"),
    [
        (LOCK, None), (changed(env="venv"), None), (changed(env="venv"), "/my/python"),
        (changed(target="cpu"), None),
        (changed(variant="small"), None), (changed(components=("torch",), cxx11_abi=0), None),
        (changed(env="venv", python=model.PythonChoice(version="3.1", range="")), None),
    ],
    ids=range(7),
)  # fmt: skip
def test_options_that_ask_for_a_lock(
    lock: model.Lock, python: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = type("Loaded", (), {"recipe": recipe()})
    monkeypatch.setattr(options, "load", lambda _: loaded)
    which = {"which": lambda name: f"/bin/{name}" if name != "python3.1" else None}
    monkeypatch.setattr(options, "shutil", SimpleNamespace(**which))
    monkeypatch.setattr(options, "sys", SimpleNamespace(version_info=SimpleNamespace(major=3, minor=12)))
    assert options_of(lock, python=python).recipe == "2.8"
    assert options_of(lock, recipe="/a/file.yaml", python=python).recipe == "/a/file.yaml"
    components = {name: RECIPE["components"][name] for name in ("ops", "vision")}
    loaded.recipe = recipe(components=components, variants={})  # type: ignore[attr-defined]
    refuses(lambda: options_of(lock, python=python))
    refuses(lambda: options_of(lock, recipe="/a/file.yaml", python=python))


def test_an_interpreter_of_the_default_version_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = type("Loaded", (), {"recipe": recipe()})
    monkeypatch.setattr(options, "load", lambda _: loaded)
    monkeypatch.setattr(options, "shutil", SimpleNamespace(which=lambda name: f"/bin/{name}"))
    monkeypatch.setattr(options, "sys", SimpleNamespace(version_info=SimpleNamespace(major=3, minor=11)))
    assert options_of(changed(env="venv")).python is None


def test_commits_that_the_recipe_leaves_open() -> None:
    here = recipe()
    torch = TORCH.model_copy(update={"url": "https://github.com/torch.git", "ref": "v2.8.0"})
    lock = example(repositories={"torch": torch, "gone": torch, "ops": torch})
    (found,) = resolved_of(lock, here).items()
    assert found[0] == "torch"
    assert vars(found[1]) == {
        "ref": "v2.8.0", "commit": TORCH.commit, "url": "https://github.com/torch.git",
        "when": "as the lock says",
    }  # fmt: skip
    for source in ({"commit": "1" * 40}, {"ref": None}, {"ref": "v2.8.1"}):
        component = RECIPE["components"]["torch"]
        other = {**component, "source": {**component["source"], **source}}
        assert resolved_of(example(repositories={"torch": torch}), recipe(components={"torch": other})) == {}


def test_hashes_of_open_wheels_are_taken_from_the_lock() -> None:
    def wheel(component: str, *hashes: str) -> model.Wheel:
        return model.Wheel(component=component, dist="x", version="1", hashes=hashes or None)

    def of(*wheels: model.Wheel) -> model.Lock:
        return example(python=LOCK.python.model_copy(update={"wheels": wheels}))

    one, other = f"sha256:{sha(1)}", f"sha256:{sha(2)}"
    made = with_known_hashes(
        of(wheel("a", one), wheel("b", one)), of(wheel("a"), wheel("b", other), wheel("c"))
    )
    assert [item.hashes for item in made.python.wheels] == [(one,), (other,), None]


def test_files_that_are_locks_by_their_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for text, found in {
        dump(LOCK): True, 'schema: "xpubuild.lock/9"': True, "schema: xpubuild.plan/1": False, "": False,
        "\n" * 19 + "schema: xpubuild.lock/1": True, "\n" * 20 + "schema: xpubuild.lock/1": False,
    }.items():  # fmt: skip
        path.write_text(text)
        assert is_lock(str(path)) is found
    path.write_bytes(b"\xff\xfe")
    assert not is_lock(str(path))
    assert not is_lock(str(tmp_path))


def test_places_and_versions_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    components = [
        {"name": "compiler", "path": "/opt/one/compiler/2025.1"}, {"name": "mkl", "path": "/opt/two/2025.1"},
    ]  # fmt: skip
    found = dict(_places(components))
    assert (found["/opt/one"], found["/opt/two"], found["/h"]) == ("{oneapi}", "{oneapi}", "{home}")
    assert short_version("3.11.7") == "3.11"
    made = clean_environment(
        {"set": {"A": "/opt/one/x:/opt/one"}, "paths": {"P": {"prepend": ["/h/a"], "append": ["/opt/one"],
         "remove": ["/"]}}},
        [("/opt", "{opt}"), ("/opt/one", "{oneapi}"), ("/", "{root}"), ("/h", "{home}")],
    )  # fmt: skip
    assert made.set == {"A": "{oneapi}/x:{oneapi}"}
    change = made.paths["P"]
    assert (change.prepend, change.append, change.remove) == (("{home}/a",), ("{oneapi}",), ("/",))


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"x": 1}, None, "a is only in the lock"),
        (None, {"x": 1}, "a is not in the lock"),
        ({"x": ("1", "2", "3", "4", "5", "6")}, {"x": ("7",)},
         "a.x: the lock has 1, 2, 3, 4 and 2 more, now there is 7"),
        ({"x": ("1", "2")}, {"x": ("2", "1")}, "a.x: the lock has the order 1, 2, now it is 2, 1"),
        ({"x": ""}, {"x": ("1",)}, "a.x: the lock has '', now it is 1"),
        ({"x": "2"}, {"x": None}, "a.x: the lock has 2, now it is none"),
    ],
)  # fmt: skip
def test_differences_in_words(before: Any, after: Any, text: str) -> None:
    (found,) = compare("", {"a": before}, {"a": after})
    assert found.text == text
    assert differences(LOCK, LOCK) == []


def test_names_of_a_recipe_are_told_apart_and_its_name_does_not_count() -> None:
    one = recipe_part(
        "a", {"name": "a", "schema": 1, "needs": {}, "components": {"x": 1}, "variants": {"v": 2}}
    )
    assert list(one.parts) == ["needs", "components.x", "variants.v"]
    assert {len(short) for short in one.parts.values()} == {12}
