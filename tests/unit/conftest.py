"""What all unit tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_index_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plan and install find every prebuilt wheel; that they ask is in integration/test_obstacles.py."""
    monkeypatch.setattr("xpubuild.packages.index.lacking.first_lacking", lambda *_args, **_options: None)
