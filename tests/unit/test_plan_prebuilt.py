"""triton: prebuilt by default where a wheel is known, before torch is built; from source on request."""

from __future__ import annotations

from typing import Any

import pytest
from support.plan_files import target_for

from xpubuild.errors import UnsatisfiableError
from xpubuild.install.planner import make_plan
from xpubuild.install.target import Target


def asked(release: str, python: str = "3.12.4", **options: Any) -> Target:
    oneapi = {"2.6": "2025.0", "2.13": "2026.0"}[release]
    return target_for(release, oneapi=oneapi, facts={"python_version": python}, **options)


def lost(target: Target) -> bool:
    return any("torch.compile" in item.feature for item in target.verdict.loses)


def test_its_wheel_is_there_before_torch_is_built() -> None:
    target = asked("2.6")
    assert target.components == ("triton-wheel", "torch")
    assert not lost(target)
    steps = {step.id: step for step in make_plan(target).steps}
    wheel, built = steps["triton-wheel"], steps["torch.wheel"]
    assert "triton-wheel" in (*built.needs, *built.after)
    assert list(steps).index("triton-wheel") < list(steps).index("torch.source")
    assert any("requirements/pytorch-triton-xpu-3.2.0.txt" in word for word in wheel.commands[1].argv)
    assert "triton.wheel" not in steps


@pytest.mark.parametrize(
    ("options", "there", "without"),
    [
        ({"with_": ("triton",)}, ("torch", "triton"), False),
        ({"without": ("triton",)}, ("torch",), True),
        ({"without": ("triton-wheel",)}, ("torch",), True),
        ({"with_": ("triton-wheel",), "without": ("triton",)}, ("triton-wheel", "torch"), False),
    ],
)
def test_from_source_on_request_or_not_at_all(
    options: dict[str, Any], there: tuple[str, ...], without: bool
) -> None:
    target = asked("2.6", **options)
    assert target.components == there
    assert lost(target) == without


def test_a_python_without_a_wheel_says_what_is_lost() -> None:
    assert asked("2.13", "3.13.1").components == ("triton-wheel", "torch")
    target = asked("2.13", "3.12.4")
    assert target.components == ("torch",)
    assert lost(target)
    assert not any("triton" in name for name in target.requirements)
    with pytest.raises(UnsatisfiableError, match=r"no wheel of triton-xpu is known for Python 3\.12\.4"):
        asked("2.13", "3.12.4", with_=("triton-wheel",))


def test_a_build_for_the_cpu_has_none() -> None:
    assert target_for("2.6").components == ("torch",)
