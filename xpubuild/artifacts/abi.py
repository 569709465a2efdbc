"""Detects from an object's symbols which C++ ABI of libstdc++ it was compiled for.

Evidence for the new ABI (1) is ``__cxx11`` or the ABI tag ``B5cxx11`` in a mangled name, for the old one (0)
``std::string``, ``std::basic_string``, ``std::list`` and the string streams outside of ``std::__cxx11``.

What does not count, because it says how libstdc++ was built and not how the object was:

* a definition whose entity is itself in a namespace of libstdc++ (``std``, ``__gnu_cxx``, ``__cxxabiv1``):
  objects with a static copy of it carry both kinds, and those made with the compilers of Red Hat's toolsets
  parts of ``libstdc++_nonshared.a`` (grpcio 1.50: 195 new beside 61 old);
* an import of the few members of the old ``std::string`` that the exception classes of libstdc++ need under
  either ABI (seen in libtorch_python of PyTorch 2.13 and in eight objects of tensorflow-cpu 2.12, all new).

The verdict goes to the majority. Where the minority has more than a tenth of the majority's symbols the count
is ``mixed``: the verdict stands, and the audit reports it. With equal counts there is no verdict.

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
from collections.abc import Iterable
from typing import Any

from xpubuild.artifacts.elf import ElfObject, Symbols
from xpubuild.documents import plain
from xpubuild.frozen import frozen

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


NEW, OLD = 1, 0
#: A majority must be this many times the minority, or the object counts as mixed.
CLEAR_MAJORITY = 10
#: Fewer symbols than this on the majority's side are called a low confidence.
ENOUGH_SYMBOLS = 5
_EXAMPLES = 5
_NEW = re.compile(r"7__cxx11|B5cxx11")
# Names worth the parser's time; most names of most libraries are not.
_PERHAPS_OLD = re.compile(r"S[sb]|4listI|stream|stringbuf|basic_regex|match_results")
# The entity that a name stands for is in a namespace of libstdc++: special prefix, N, qualifiers, then St, Ss
# and so on.
_OF_STD = re.compile(
    r"_Z(?:GT[tn]|GV|GR|T[VTISWH]|T[hv]n?\d+_(?:n?\d+_)?)?N?[rVK]*[RO]?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)"
)
_SUPPORT = re.compile(r"_ZNSs(?:4_Rep|C[12]E|D[12]Ev|aSERKSs|6assignERKSs|4swapERSs)")


@frozen
class AbiCount:
    """How many symbols speak for either ABI, with the first names of each side, imports before the rest."""

    new: int = 0
    old: int = 0
    new_examples: tuple[str, ...] = ()
    old_examples: tuple[str, ...] = ()

    @property
    def verdict(self) -> int | None:
        """1 or 0 by majority, None without evidence or with equal counts."""
        if self.new == self.old:
            return None
        return NEW if self.new > self.old else OLD

    @property
    def mixed(self) -> bool:
        """Whether the minority is too large to be a stray symbol."""
        return min(self.new, self.old) * CLEAR_MAJORITY > max(self.new, self.old)

    @property
    def confidence(self) -> str:
        """``none`` without a verdict, ``low`` for mixed or little evidence, else ``high``."""
        if self.verdict is None:
            return "none"
        return "low" if self.mixed or max(self.new, self.old) < ENOUGH_SYMBOLS else "high"

    def against(self, wanted: int) -> tuple[str, ...]:
        """Return example symbols of the ABI that is not wanted."""
        return self.old_examples if wanted == NEW else self.new_examples

    def to_json(self) -> dict[str, Any]:
        """Return the count for reports."""
        summary = {"verdict": self.verdict, "confidence": self.confidence, "mixed": self.mixed}
        return {**summary, **plain(self)}


def classify(source: ElfObject | Symbols) -> AbiCount:
    """Count the evidence in an object's dynamic symbols, or in a symbol table.

    Local names (they exist in a static table only) are definitions.
    """
    symbols = source.symbols if isinstance(source, ElfObject) else source
    imports = symbols.undefined + symbols.undefined_weak
    own = [name for name in imports if not _OF_STD.match(name)]
    standard = [name for name in imports if _OF_STD.match(name) and not _SUPPORT.match(name)]
    definitions = (name for name in symbols.defined + symbols.local if not _OF_STD.match(name))
    new: dict[str, None] = {}
    old: dict[str, None] = {}
    # What an object imports from other libraries is what fails at load time, so it leads the examples.
    for names in (own, definitions, standard):
        _collect(names, new, old)
    return AbiCount(len(new), len(old), tuple(new)[:_EXAMPLES], tuple(old)[:_EXAMPLES])


def _collect(names: Iterable[str], new: dict[str, None], old: dict[str, None]) -> None:
    for name in names:
        if not name.startswith("_Z"):
            continue
        if _NEW.search(name):
            new[name] = None
        elif _PERHAPS_OLD.search(name) and old_abi_in(name):
            old[name] = None
