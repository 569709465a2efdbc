"""Find the pre-C++11 ``std::string`` and ``std::list`` in mangled C++ names.

``Ss`` means ``std::string`` only where the grammar of the Itanium C++ ABI (section 5.1, "External names")
expects a substitution; inside an identifier such as ``7Session`` it means nothing. So a name is parsed to
its end. One that does not follow the grammar is no evidence at all, nor is one with expressions in template
arguments or ``decltype``, which this grammar leaves out.

``__cxa_demangle`` of libstdc++ would do the parsing, but it writes every substitution out: a name of 250
characters can make it fill 570 MB, and it refuses names that are longer than 1,024.
"""

from __future__ import annotations

import functools
import re

_OPERATORS = (
    "nw|na|dl|da|aw|ps|ng|ad|de|co|pl|mi|ml|dv|rm|an|or|eo|aS|pL|mI|mL|dV|rM|aN|oR|eO|ls|rs|lS|rS|eq|ne|lt"
    "|gt|le|ge|ss|nt|aa|oo|pp|mm|cm|pm|pt|cl|ix|qu"
)
# Classes that libstdc++ moves into the inline namespace ``std::__cxx11`` with the new ABI.
_MOVED = (
    "(?:4list|19basic_ostringstream|19basic_istringstream|18basic_stringstream|15basic_stringbuf"
    "|11basic_regex|13match_results)I"
)
_CALL_OFFSET = "/h?n?[0-9]+_|vn?[0-9]+_n?[0-9]+_"
_PARAMETER = "T(?:L[0-9]*_)?[0-9]*_"

#: Rule -> alternatives: the first whose pattern matches is taken for good, so the time is linear.
#: What follows a pattern is a rule, ``/`` and a pattern, or ``rule*pattern``: the rule again and again until
#: the pattern matches. The group ``old`` takes part where a class of the old ABI is named.
_GRAMMAR: dict[str, tuple[tuple[str, ...], ...]] = {
    "encoding": (("(?=[TG])", "special"), ("", "name", r"type*(?=[E.]|\Z)")),
    "special": (
        ("T[VTIS]", "type"),
        ("TW|TH|GV", "name"),
        ("GR", "name", "/[0-9A-Z]*_"),
        ("TC", "type", "/[0-9]*_", "type"),
        ("T(?=[hv])", _CALL_OFFSET, "encoding"),
        ("Tc", _CALL_OFFSET, _CALL_OFFSET, "encoding"),
        ("GT.", "encoding"),  # a clone for transactional memory, transaction-safe (t) or not (n)
    ),
    "name": (
        ("NH?[rVK]*[RO]?", "prefix*E"),
        ("Z", "encoding", "/E", "entity", "/(?:_[0-9]|__[0-9]+_)?"),
        ("(?=S[^t])", "substitution", "arguments"),
        (f"(?:St(?P<old>(?={_MOVED}))?)?", "unqualified", "arguments"),
    ),
    "entity": (("s",), ("d", "/[0-9]*_", "name"), ("", "name")),
    "prefix": (
        ("(?=I)", "arguments"),
        (f"St(?P<old>(?={_MOVED}))?",),
        ("(?=S)", "substitution"),
        (_PARAMETER,),
        ("M",),
        ("", "unqualified"),
    ),
    "unqualified": (("", "plain", "tag*(?!B)"),),
    "plain": (
        ("(?=[0-9])", "identifier"),
        ("CI[12]", "type"),
        ("C[1-5]|D[0-5]",),
        ("DC", "identifier*E"),
        ("Ut[0-9]*_",),
        ("Ul", "parameter*(?!T[yntp])", "type*E", "/[0-9]*_"),
        ("L", "unqualified"),
        ("cv", "type"),
        ("li", "identifier"),
        (_OPERATORS,),
    ),
    "tag": (("B", "identifier"),),
    "substitution": (("S(?:[aiod]|(?P<old>[sb]))", "tag*(?!B)"), ("S[0-9A-Z]*_",)),
    "type": (
        ("[rVKPROCG]+", "type"),
        ("U(?![tl])", "identifier", "arguments", "type"),
        ("[vwbahcstijlmxynofdegz]",),
        ("D[BU][0-9]*_|DF[0-9]+[_xb]|D[defhisucan]",),
        ("Dv[0-9]*_|D[opx]", "type"),
        ("FY?", "type*[RO]?E"),
        ("A[0-9]*_", "type"),
        ("M", "type", "type"),
        ("T[sue]", "name"),
        (_PARAMETER, "arguments"),
        ("(?=S[^t])", "substitution", "arguments"),
        ("u", "identifier", "arguments"),
        ("(?![DFAMTu])", "name"),
    ),
    "arguments": (("I", "argument*E"), ("",)),
    "argument": (
        ("L_Z", "encoding", "/E"),
        ("L", "type", "/n?[0-9a-f]*(?:_n?[0-9a-f]*)?E"),
        ("[JI]", "argument*E"),
        ("(?=T[yntp])", "parameter", "argument"),
        ("", "type"),
    ),
    "parameter": (("Ty",), ("Tn", "type"), ("Tp", "parameter"), ("Tt", "parameter*E")),
}
_LENGTH = re.compile("[0-9]{1,7}")
_compiled = functools.cache(re.compile)


class _NotMangledError(Exception):
    """The name does not follow the grammar, or uses a part of it that is left out here."""


def old_abi_in(name: str) -> bool | None:
    """Whether a mangled name uses ``std::string`` or a sibling of the old ABI; None if it is not parsed."""
    if not name.startswith("_Z"):
        return None
    scan = _Scan(name)
    try:
        scan.rule("encoding")
    except (_NotMangledError, RecursionError):
        return None
    # A clone made by the compiler carries a suffix such as ``.constprop.0``.
    return scan.old if name[scan.at : scan.at + 1] in ("", ".") else None


class _Scan:
    """One walk through a mangled name; ``old`` says whether old-ABI classes were met."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len("_Z")
        self.old = False

    def accept(self, pattern: str) -> bool:
        found = _compiled(pattern).match(self.text, self.at)
        if found is None:
            return False
        self.at = found.end()
        self.old = self.old or found.lastgroup == "old"
        return True

    def rule(self, name: str) -> None:
        if name == "identifier":
            self.identifier()
            return
        for pattern, *rest in _GRAMMAR[name]:
            if self.accept(pattern):
                for item in rest:
                    self.follow(item)
                return
        raise _NotMangledError

    def follow(self, item: str) -> None:
        rule, _, until = item.partition("*")
        if item.startswith("/"):
            if not self.accept(item[1:]):
                raise _NotMangledError
        elif until:
            while not self.accept(until):
                self.rule(rule)
        else:
            self.rule(item)

    def identifier(self) -> None:
        found = _LENGTH.match(self.text, self.at)
        length = int(found.group()) if found else 0
        if found is None or length == 0 or found.end() + length > len(self.text):
            raise _NotMangledError
        self.at = found.end() + length
