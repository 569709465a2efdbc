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
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from xpubuild.artifacts.elf import ElfObject, Symbols
from xpubuild.artifacts.mangling import old_abi_in
from xpubuild.documents import plain
from xpubuild.frozen import frozen

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
        told = {"verdict": self.verdict, "confidence": self.confidence, "mixed": self.mixed}
        return {**told, **plain(self)}


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
