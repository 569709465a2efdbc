"""What the programs of this host said of themselves, kept in the user's cache."""

from __future__ import annotations

import platformdirs

from xpubuild.engine.answers import Answers


def remembered() -> Answers:
    """Return what is remembered for this user."""
    return Answers(platformdirs.user_cache_path("xpubuild") / "answers")
