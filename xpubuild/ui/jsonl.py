"""The sink for programs: one event per line as JSON, flushed at once."""

from __future__ import annotations

import json

from xpubuild.engine.events import Event
from xpubuild.ui.level import Level, matters
from xpubuild.ui.terminal import Terminal


class JsonLinesSink:
    """Writes every event, also each line of output; with ``--quiet`` only failures and the end."""

    def __init__(self, terminal: Terminal, level: Level = Level.NORMAL) -> None:
        self.terminal = terminal
        self.level = level

    def emit(self, event: Event) -> None:
        """Take one event."""
        if self.level is not Level.QUIET or matters(event):
            self.terminal.write(json.dumps(event.to_json(), ensure_ascii=True) + "\n")

    def close(self) -> None:
        """Nothing to put back."""
