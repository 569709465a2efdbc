"""What ``xpubuild report`` says on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.ui.parts import Facts, Part


def written_view(document: Mapping[str, Any], page: Path | None, trace: Path | None) -> tuple[Part, ...]:
    """Return which files were written, and of what."""
    files = (("page", page), ("trace", trace))
    return (
        Facts(
            (
                ("workspace", document["workspace"]),
                ("status", document["status"]),
                *((name, str(path)) for name, path in files if path is not None),
            )
        ),
    )
