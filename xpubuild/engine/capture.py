"""Captures the complete output of a short command, up to a limit."""

from __future__ import annotations

from xpubuild.engine.watch import Child

#: Of each stream, in bytes: no answer that is asked for is nearly as long.
MOST_OUTPUT_BYTES = 16 << 20


class Captured:
    """The beginning of a stream; the command is killed when there is more."""

    def __init__(self, child: Child, most_bytes: int) -> None:
        self._child = child
        self._most = most_bytes
        self._data = bytearray()
        self.too_long = False

    def take(self, data: bytes) -> None:
        """Add what was read."""
        room = self._most - len(self._data)
        self._data += data[:room]
        if len(data) > room and not self.too_long:
            self.too_long = True
            self._child.kill_tree()

    @property
    def text(self) -> str:
        """What was kept, as text."""
        return self._data.decode("utf-8", "replace")
