"""What happened after a line: whether a run failed, went on, or came to a good end."""

from __future__ import annotations

import re

from xpubuild.explain.signature import MAX_DISTANCE
from xpubuild.frozen import frozen

_START = "AB-distributed-start"
_TRANSFERS = frozenset({"S-network-proxy-certificate", "Q-triton-llvm-download"})
#: SYCL tries the adapters of all backends; XPU needs Level Zero's alone.
_NOT_NEEDED = re.compile(r"failed to load adapter \W?(?:\S{0,200}/)?libur_adapter_(?!level_zero)")
#: Steps of a training; steps of a build or a server; the end of a transfer or an installation.
_MARKS = re.compile(
    rb"(?P<trained>\b(?:global_)?(?:step|iter(?:ation)?)s?\W{1,4}\d[^\n]{0,80}?\bloss\b|\bepoch\W{1,4}\d"
    rb"|\bloss\W{1,4}\d)"
    rb"|(?P<step>^\[ {0,3}\d{1,7}/\d{1,7}\] [A-Z]|^\[ {0,2}\d{1,3}%\] [A-Z]|\bstartup complete\b"
    rb"|^\[level_zero:gpu\])"
    rb"|(?P<done>\bSuccessfully (?:installed|pulled) |\b(?:Receiving objects|Resolving deltas): 100%"
    rb"|: Downloaded newer image |^\S[^\n]{0,200} saved \[\d)",
    re.IGNORECASE | re.MULTILINE,
)


@frozen
class Aftermath:
    """The last lines, counted from 1, at which a log shows a failure, a step, and a good end; 0: none."""

    failed: int = 0
    step: int = 0
    done: int = 0
    trained: bool = False
    """Whether a training took a step, before or after a failure."""

    def only_possible(self, family: str, line: int, excerpt: str) -> bool:
        """Return whether a cause found at a line is no more than possible, as the run did not fail of it."""
        if family == _START and self.trained:
            return True
        if family in _TRANSFERS and self.done > max(line, self.failed):
            return True
        # A failure shortly before it is the head of the same report.
        if self.failed and self.failed + MAX_DISTANCE >= line:
            return False
        return max(self.step, self.done) > line or bool(_NOT_NEEDED.search(excerpt))


def last_marks(block: bytes) -> dict[str, int]:
    """Return where the last training step, other step and good end in a block begin."""
    return {found.lastgroup or "": found.start() for found in _MARKS.finditer(block)}
