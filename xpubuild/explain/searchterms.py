"""What to type into a search engine for an error of no known cause; nothing names a person or a place."""

from __future__ import annotations

import re

from xpubuild.engine.redact import MASK

_MOST_WORDS = 12
_TELLING = 4  # letters
_PLACE = re.compile(r"^\S{1,400}?:\d{1,7}(?::\d{1,6})?:\s{0,4}")
_HEAD = re.compile(r"^(?:\S{1,200}: )?(?:fatal |internal compiler )?(?:error|ERROR|Error|fatal): ")
# What git could not reach is particular to one machine, and no page has it together with the reason.
_ACCESS = re.compile(r"^unable to access '\S{1,400}': ")
_URL = re.compile(r"\b[a-z][a-z+]{1,12}://(?:[^\s/@']{1,200}@)?([\w.-]{1,200})[^\s']{0,400}")
_LABEL = re.compile(r"\S{0,100}@\S{1,100}")
#: Paths whose last part is the same on every machine: a header, a library, a source file, a program of a
#: tool chain.
_COMMON = re.compile(r"[\w.+-]{1,100}\.(?:h|hpp|hh|so[\d.]{0,20}|a|o|cpp|cc|cu|cxx|c|py|cmake|txt|toml|sh)$")
# A path with blanks ends at its last part; who a home folder belongs to is in any of them.
_PATH = re.compile(
    r"(?:[A-Za-z]:|~[\w.-]{0,40})?[/\\](?:[^\s/\\'\":;,()]{1,200}[/\\]){0,40}[^\s/\\'\":;,()]{0,200}|(?:[\w.+@~-]{1,200}/){1,40}[\w.+@-]{1,200}"
)
# The status of a server or of a program says what is wrong, other long numbers do not.
_STATUS = r"(?<!\()(?<!\(-)(?<!response )(?<!code )(?<!Error )(?<!error: )(?<!failed: )(?<!status )"
_NUMBER = re.compile(rf"{_STATUS}\b(?:0x[0-9a-fA-F]{{1,32}}|[0-9a-f]{{12,64}}|\d{{3,}}(?:\.\d{{1,9}})?)\b")
_QUOTED_BLANKS = re.compile(r"'[^']{0,200}/[^']{0,200}'|\"[^\"]{0,200}/[^\"]{0,200}\"")


def _last(path: re.Match[str]) -> str:
    """Return the last part of a path if it is the same everywhere."""
    name = re.split(r"[/\\]", path[0].strip("'\""))[-1]
    return name if _COMMON.fullmatch(name) else ""


def search_terms(text: str, kind: str) -> tuple[str, ...]:
    """Return search terms, the most exact first; what is particular to one machine or person is left out."""
    message = _ACCESS.sub("", _HEAD.sub("", _PLACE.sub("", text.strip())))
    message = _PATH.sub(_last, _QUOTED_BLANKS.sub(_last, _LABEL.sub(" ", _URL.sub(r"\1", message))))
    message = _NUMBER.sub(" ", message)
    words = [word for word in message.split() if MASK not in word and word not in {"''", '""'}][:_MOST_WORDS]
    if not words:
        return ()
    exact = " ".join(words)
    names = [word.strip("'\"`\u2018\u2019:,()") for word in words]
    telling = [word for word in names if len(word) >= _TELLING and re.search(r"_|::|\.\w", word)]
    who = "" if exact.startswith(f"{kind}:") else f"{kind} "
    terms = [f'"{exact}"', f"pytorch xpu {who}{exact}"]
    if telling:
        terms.append(f"pytorch xpu {' '.join(telling[:3])}")
    return tuple(terms)
