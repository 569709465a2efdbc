"""The forecast of a run: what its steps are expected to take, from earlier builds and from the recipe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from xpubuild.engine.events import Sink
from xpubuild.engine.runner import needed_for
from xpubuild.engine.state import StepState
from xpubuild.install.target import Prepared


@contextlib.contextmanager
def forecasting(
    prepared: Prepared, states: Mapping[str, StepState], sink: Sink, until: str | None
) -> Iterator[Sink]:
    """Return a sink that also tells what is left; the sink itself where nothing is to do."""
    plan, context = prepared.plan, prepared.target
    steps = needed_for(plan, until)
    todo = [step.id for step in steps if not states[step.id].done]
    if not todo:
        yield sink
        return
    # An install that has nothing to do reads no other workspaces.
    from xpubuild.engine.forecast import Forecaster  # noqa: PLC0415
    from xpubuild.install.earlier import histories_of, known_of  # noqa: PLC0415
    from xpubuild.install.estimate import estimates  # noqa: PLC0415

    expected = estimates(context, plan, todo, known_of(context))
    with Forecaster(sink, steps, expected, histories_of(context, todo)) as telling:
        yield telling
