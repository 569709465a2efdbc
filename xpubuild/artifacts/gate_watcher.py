"""The watcher of a build step as a plan holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpubuild.artifacts.gate_rules import Expectation
from xpubuild.frozen import frozen

if TYPE_CHECKING:
    from xpubuild.artifacts.xpu_gate import StepWatcher


@frozen
class WatchStep:
    """Makes the watcher of one attempt; a plan holds this and does not read anything.

    ``xpu`` says whether XPU was asked for, ``expected`` what of it (None where PyTorch itself is not built).
    ``closed`` is the component whose build has no network.
    """

    xpu: bool
    expected: Expectation | None = None
    recipe: str = ""
    closed: str = ""

    def __call__(self) -> StepWatcher:
        """Return a new watcher."""
        # Planning needs none of explain's rules.
        from xpubuild.artifacts.xpu_gate import StepWatcher

        return StepWatcher(self.xpu, self.expected, self.recipe, self.closed)
