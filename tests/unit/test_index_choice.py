"""Which files of a release an interpreter may pick."""

from __future__ import annotations

import re

import pytest

from xpubuild.errors import RecipeError
from xpubuild.resources import recipes_dir
from xpubuild.supply.index.pip_download import can_install
from xpubuild.supply.requirements import hashed_pins, pinned


def fits(filename: str, python: str = "3.11") -> bool:
    return can_install(filename, python)


@pytest.mark.parametrize(
    "tags",
    [
        "py3-none-any", "py2.py3-none-any", "py311-none-any", "cp311-cp311-linux_x86_64",
        "cp311-cp311-manylinux1_x86_64", "cp311-cp311-manylinux2010_x86_64",
        "cp311-abi3-manylinux2014_x86_64",
        "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "cp311-cp311-manylinux_2_39_x86_64",
        "cp37-abi3-manylinux_2_5_x86_64", "py3-none-manylinux_2_49_x86_64", "cp311-none-any",
    ],
)  # fmt: skip
def test_what_an_interpreter_on_glibc_may_pick(tags: str) -> None:
    assert fits(f"demo-1.0-{tags}.whl")


@pytest.mark.parametrize(
    "tags",
    [
        "cp312-cp312-manylinux_2_17_x86_64", "cp312-abi3-manylinux_2_17_x86_64",
        "cp311-cp311-musllinux_1_2_x86_64",
        "cp311-cp311-macosx_11_0_arm64", "cp311-cp311-win_amd64", "cp311-cp311-manylinux_2_17_aarch64",
        "cp311-cp311t-manylinux_2_17_x86_64", "pp311-pypy311_pp73-manylinux_2_17_x86_64", "py2-none-any",
        "cp310-cp310-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_17_i686", "py312-none-any",
    ],
)  # fmt: skip
def test_what_it_may_not_pick(tags: str) -> None:
    assert not fits(f"demo-1.0-{tags}.whl")


def test_free_threaded_builds() -> None:
    assert fits("demo-1.0-cp313-cp313t-manylinux_2_17_x86_64.whl", "3.13t")
    assert not fits("demo-1.0-cp313-cp313-manylinux_2_17_x86_64.whl", "3.13t")
    assert not fits("demo-1.0-cp39-abi3-manylinux_2_17_x86_64.whl", "3.13t")


PINS = f"""\
# comment
-c other.txt
numpy==2.2.6 ; python_full_version < '3.11' \\
    --hash=sha256:{"1" * 64} \\
    --hash=sha256:{"2" * 64}
    # via somebody
numpy==2.3.1 ; python_full_version >= '3.11' \\
    --hash=sha256:{"3" * 64}
Pillow==12.0 --hash=sha256:{"AB" * 32}  # --hash=sha256:{"4" * 64}
late==1.0 ; python_full_version >= '3.11.4' --hash=sha256:{"5" * 64}
arm==1.0 ; platform_machine == 'aarch64' --hash=sha256:{"6" * 64}
"""


def test_pins_carry_their_hashes_and_their_markers() -> None:
    pins = hashed_pins(PINS)
    assert [(pin.name, pin.version, len(pin.hashes)) for pin in pins] == [
        ("numpy", "2.2.6", 2), ("numpy", "2.3.1", 1), ("Pillow", "12.0", 1), ("late", "1.0", 1),
        ("arm", "1.0", 1),
    ]  # fmt: skip
    assert pins[2].hashes == {"ab" * 32}
    assert [pin.version for pin in pins[:2] if pin.applies("3.10")] == ["2.2.6"]
    assert [pin.version for pin in pins[:2] if pin.applies("3.11")] == ["2.3.1"]
    assert pins[3].applies("3.11")
    assert pins[3].applies("3.11.4")
    assert not pins[3].applies("3.11.3")
    assert pins[4].applies("3.11", "aarch64")
    assert not pins[4].applies("3.11")


def test_what_is_no_pin_is_refused() -> None:
    for wrong in ("numpy>=2", "numpy", "nump y==2", "https://example.org/x.whl"):
        with pytest.raises(RecipeError):
            hashed_pins(wrong)


@pytest.mark.parametrize(
    "path", sorted((recipes_dir() / "requirements").glob("*.txt")), ids=lambda path: path.name
)
def test_every_pin_that_is_shipped_has_hashes(path: object) -> None:
    text = path.read_text("utf-8")  # type: ignore[attr-defined]
    pins = hashed_pins(text)
    assert pins
    assert sum(len(pin.hashes) for pin in pins) == len(
        re.findall(r"^\s+--hash=sha256:[0-9a-f]{64}\b", text, re.M)
    )
    assert {pin.name for pin in pins} >= {name for name, _ in pinned(text, "3.12")}


LISTED = [
    line.split()
    for line in (recipes_dir() / "requirements" / "torch-2.13.0-cpu.sha256").read_text().splitlines()
    if line and not line.startswith("#")
]  # fmt: skip


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14", "3.14t"])
def test_the_prebuilt_torch_has_one_wheel_for_every_interpreter_of_the_quickstart(
    python: str,
) -> None:
    hashes = hashed_pins((recipes_dir() / "requirements" / "torch-2.13.0-cpu.txt").read_text("utf-8"))
    torch = next(pin for pin in hashes if pin.name == "torch")
    chosen = [digest for digest, name in LISTED if fits(name, python)]
    assert len(chosen) == 1
    assert chosen[0] in torch.hashes
