"""What checks say about a device that others use, or that is far below its peak. The device is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from xpubuild.verify.suite import registry
from xpubuild.verify.suite.context import CheckSkippedError
from xpubuild.verify.suite.hardware import memory_of

GIB = 2**30


class OutOfMemoryError(RuntimeError):
    """Plays the error of torch with the same name."""


def device(*free: float, reserved: float = 0.0, total: float = 80) -> Any:
    """Return the context of a device whose free memory (GiB) is ``free``, one figure a question."""
    figures = [int(value * GIB) for value in free]

    def answer() -> tuple[int, int]:
        return (figures.pop(0) if len(figures) > 1 else figures[0]), int(total * GIB)

    module = SimpleNamespace(mem_get_info=answer, memory_reserved=lambda: int(reserved * GIB))
    warnings: list[str] = []
    metrics: dict[str, Any] = {}
    return SimpleNamespace(
        backend=SimpleNamespace(name="cuda"), module=module,
        torch=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        warnings=warnings, warn=warnings.append, metrics=metrics, metric=metrics.__setitem__,
    )  # fmt: skip


def test_memory_that_is_not_there_is_a_skip_with_the_figures() -> None:
    with pytest.raises(CheckSkippedError) as caught, memory_of(device(3.5), 9 * GIB):
        pass
    assert "3.5 GiB free, but this needs 9.0 GiB" in str(caught.value)


def test_memory_that_another_process_takes_meanwhile_is_a_skip() -> None:
    with pytest.raises(CheckSkippedError), memory_of(device(70, 2, reserved=4), 9 * GIB):
        raise OutOfMemoryError


def test_an_allocator_that_refuses_free_memory_is_a_failure() -> None:
    with pytest.raises(OutOfMemoryError), memory_of(device(70), 9 * GIB):
        raise OutOfMemoryError
    with pytest.raises(RuntimeError, match="other"), memory_of(device(70, 2), 9 * GIB):
        raise RuntimeError("other")


@pytest.mark.parametrize(
    ("speed", "warned", "causes"), [(60.0, False, False), (30.0, True, False), (9.0, True, True)]
)
def test_far_below_the_peak_causes_are_named(speed: float, warned: bool, causes: bool) -> None:
    registry.discover()  # in its order
    from xpubuild.verify.suite import check_speed

    context = device(50)
    check_speed._against(context, "bfloat16_tflops", speed, 100.0)
    assert context.metrics["bfloat16_tflops_of_peak"] == speed / 100
    assert len(context.warnings) == warned
    text = " ".join(context.warnings)
    assert ("ZE_AFFINITY_MASK" in text) == causes
