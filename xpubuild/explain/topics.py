"""What an error is about, where nothing knows its cause: a hint that is never told as likely."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from xpubuild.explain.entities import Pattern
from xpubuild.explain.firsterror import FirstError
from xpubuild.explain.normalise import canonical
from xpubuild.explain.rank import LikelyCause
from xpubuild.safe_yaml import read_yaml

CONFIDENCE = 0.3
_FILE = Path(__file__).with_name("topics.yaml")


class Topic(BaseModel):
    """``line`` is searched in the first error, if one of ``tools`` printed it or there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    family: str
    line: Pattern
    about: str
    next: str
    tools: tuple[str, ...] = ()
    fix: str = "Read the first error with its context, and look it up with the search terms."


@functools.cache
def topics() -> tuple[Topic, ...]:
    """Return the topics that ship with xpubuild, in the order in which they are tried."""
    return tuple(Topic.model_validate(item) for item in read_yaml(_FILE.read_text("utf-8"))["topics"])


def _message(error: FirstError) -> str:
    """Return the text of an error; CMake writes it into the lines below."""
    if error.kind != "cmake":
        return error.text
    return error.text + "".join(text for text in error.context if text.startswith("  "))


def hint(error: FirstError) -> LikelyCause | None:
    """Return what an error is about, by its words and by the tool that printed it."""
    text = canonical(_message(error))
    for topic in topics():
        if (not topic.tools or error.kind in topic.tools) and re.search(topic.line, text):
            return LikelyCause(
                id=topic.id,
                family=topic.family,
                title=f"The cause is not known; the error is about {topic.about}",
                line=error.line,
                excerpt=error.text,
                cause=f"No known failure fits. By its words the error is about {topic.about}.",
                fix=topic.fix,
                next_command=topic.next,
                confidence=CONFIDENCE,
                sources=(),
                releases="",
                probes=(),
            )
    return None
