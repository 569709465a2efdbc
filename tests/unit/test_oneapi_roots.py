"""Finding installations: order, duplicates, wrong places, unpacked images."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin

from xpubuild.errors import UsageError
from xpubuild.machine.oneapi_roots import candidates, find_roots, resolve_inside


@pytest.fixture
def image(tmp_path: Path) -> Path:
    folder = tmp_path / "an image é"
    folder.mkdir()
    return folder


def test_the_order_of_places(image: Path) -> None:
    for place in ("opt/intel/oneapi", "home/user/intel/oneapi", "soft/oneapi"):
        standin.build_root(image / place)
    environment = {"ONEAPI_ROOT": "/soft/oneapi", "HOME": "/home/user"}
    found = find_roots(None, environment, root_dir=image)
    assert [root.real.relative_to(image.resolve()).parts[0] for root in found] == ["soft", "opt", "home"]
    assert [root.origin for root in found] == ["ONEAPI_ROOT", "the system's place", "the user's place"]


def test_places_that_are_the_same_folder_count_once(image: Path) -> None:
    standin.build_root(image / "soft" / "oneapi")
    (image / "opt" / "intel").mkdir(parents=True)
    (image / "opt" / "intel" / "oneapi").symlink_to("/soft/oneapi")
    found = find_roots(None, {"ONEAPI_ROOT": "/soft/oneapi", "HOME": "/root"}, root_dir=image)
    assert len(found) == 1
    assert found[0].real == (image / "soft" / "oneapi").resolve()


def test_a_wrong_oneapi_root_variable_is_passed_over(image: Path) -> None:
    standin.build_root(image / "opt" / "intel" / "oneapi")
    for value in ("/nowhere", "relative/oneapi", ""):
        found = find_roots(None, {"ONEAPI_ROOT": value}, root_dir=image)
        assert [root.origin for root in found] == ["the system's place"]


def test_explicit_is_the_only_one(tmp_path: Path) -> None:
    own = standin.build_root(tmp_path / "own é")
    other = standin.build_root(tmp_path / "other")
    found = find_roots(own, {"ONEAPI_ROOT": str(other)})
    assert [root.path for root in found] == [own]


def test_explicit_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = standin.build_root(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    assert find_roots(Path("own"), {})[0].real == own.resolve()


def test_the_folder_of_a_toolkit_stands_for_the_root_above_it(tmp_path: Path) -> None:
    toolkit = standin.build_unified(tmp_path / "oneapi", "2025.1")
    root = find_roots(toolkit, {})[0]
    assert (root.real, root.toolkit) == (tmp_path.resolve() / "oneapi", "2025.1")
    assert find_roots(tmp_path / "oneapi", {})[0].toolkit is None


def test_a_wrong_explicit_root_says_what_was_looked_for(tmp_path: Path) -> None:
    standin.build_root(tmp_path / "good")
    empty = tmp_path / "empty folder"
    empty.mkdir()
    file = tmp_path / "file"
    file.touch()
    for path, why in (
        (tmp_path / "missing", "the folder does not exist"),
        (file, "Not a directory"),
        (empty, "env/vars.sh"),
    ):
        with pytest.raises(UsageError) as caught:
            find_roots(path, {"ONEAPI_ROOT": str(tmp_path / "good")})
        assert caught.value.exit_code == 2
        assert str(path) in caught.value.what
        assert why in caught.value.why
        assert "/opt/intel/oneapi" in caught.value.fix


def test_nothing_installed_finds_nothing(image: Path) -> None:
    assert find_roots(None, {"HOME": "/root"}, root_dir=image) == ()


def test_places_searched_are_listed() -> None:
    assert [str(path) for path, _ in candidates({"HOME": "/h", "ONEAPI_ROOT": "/o"})] == [
        "/o",
        "/opt/intel/oneapi",
        "/h/intel/oneapi",
    ]
    assert len(candidates({})) == 1


def test_links_are_followed_inside_the_image_only(image: Path) -> None:
    (image / "etc").mkdir()
    (image / "a").symlink_to("/etc")
    (image / "b").symlink_to("../../../../../../etc")
    (image / "loop").symlink_to("/loop")
    base = image.resolve()
    assert resolve_inside(image, image / "a" / "x") == base / "etc" / "x"
    assert resolve_inside(image, image / "b" / "x") == base / "etc" / "x"
    assert resolve_inside(image, base / "a" / ".." / "x") == base / "x"
    assert resolve_inside(image, image / "loop").is_relative_to(base)
