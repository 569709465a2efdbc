"""Detects from an object's symbols which C++ ABI of libstdc++ it was compiled for.

Evidence for the new ABI (1) is ``__cxx11`` or the ABI tag ``B5cxx11`` in a mangled name, for the old one (0)
``std::string``, ``std::basic_string``, ``std::list`` and the string streams outside of ``std::__cxx11``.

What does not count, because it says how libstdc++ was built and not how the object was:

* a definition whose entity is itself in a namespace of libstdc++ (``std``, ``__gnu_cxx``, ``__cxxabiv1``):
  objects with a static copy of it have both kinds, and those of Red Hat's toolset compilers contain parts of
  ``libstdc++_nonshared.a`` (grpcio 1.50: 195 new beside 61 old);
* an import of the few members of the old ``std::string`` that the exception classes of libstdc++ need under
  either ABI (seen in libtorch_python of PyTorch 2.13 and in eight objects of tensorflow-cpu 2.12, all new).

The verdict goes to the majority, and the audit reports a minority. With equal counts there is no verdict.
"""

from __future__ import annotations

import re
from typing import Literal

from xpubuild.artifacts.elf import ElfObject, Symbols
from xpubuild.frozen import frozen

NEW, OLD = 1, 0
_EXAMPLES = 5
_NEW = re.compile(r"7__cxx11|B5cxx11")
# Names worth a closer look; most names of most libraries are not.
_PERHAPS_OLD = re.compile(r"S[sb]|4listI|stream|stringbuf|basic_regex|match_results")
# The entity that a name stands for is in a namespace of libstdc++: special prefix, N, qualifiers, then St, Ss
# and so on.
_OF_STD = re.compile(
    r"_Z(?:GT[tn]|GV|GR|T[VTISWH]|T[hv]n?\d+_(?:n?\d+_)?)?N?[rVK]*[RO]?(?:S[tabsiod]|9__gnu_cxx|10__cxxabiv1)"
)
_SUPPORT = re.compile(r"_ZNSs(?:4_Rep|C[12]E|D[12]Ev|aSERKSs|6assignERKSs|4swapERSs)")

# A name is taken apart by the tokens of the Itanium C++ ABI (5.1, "External names"): inside of an identifier
# such as ``7Session``, ``Ss`` means nothing. ``__cxa_demangle`` would write every substitution out: 250
# characters can make it fill 570 MB, and it refuses names that are longer than 1,024.
_START = re.compile(r"_Z(?:GT.|GV|GR|T[CHISTVWc]|T?[hv]n?\d+_(?:n?\d+_)?)*")
# Classes that libstdc++ moves into the inline namespace ``std::__cxx11`` with the new ABI.
_MOVED = (
    "(?:4list|19basic_[io]stringstream|18basic_stringstream|15basic_stringbuf|11basic_regex|13match_results)I"
)
_TOKEN = re.compile(
    rf"(?P<old>S[sb]|St(?={_MOVED}))|(?P<length>[1-9]\d{{0,6}})|(?P<end>E)|(?P<unknown>X|D[Tt])"
    r"|(?:a[NS]|dV|eO|[lr]S|m[IL]|oR|pL|rM)(?=[EI])"  # operators such as +=
    r"|(?P<open>L_Z|Ul|[FIJNZ])"
    r"|S[aiodt]|S[\dA-Z]*_|T(?:L\d*_)?\d*_|A\d*_|D[vBU]\d*_|DF\d+[_xb]|Ut\d*_|CI[12]|[CD][0-5]|__?\d+_?|."
)
# The end of a literal in template arguments; what may follow the end of a lambda and of a function.
_VALUE = re.compile(r"(?:n?\d+)?E")
_AFTER = {"U": re.compile(r"\d*_?"), "Z": re.compile(r"(?:d\d*_|s)?")}


def old_abi_in(name: str) -> bool:
    """Whether a mangled name uses ``std::string`` or a sibling of the old ABI.

    A name that does not follow the grammar says nothing, nor does one with an expression or ``decltype``.
    """
    start = _START.match(name)
    at, found, inside = start.end() if start else len(name), False, list[str]()
    # A clone made by the compiler has a suffix such as ``.constprop.0``.
    while token := _TOKEN.match(name, at) if name[at : at + 1] != "." else None:
        if inside[-1:] == ["L"] and (value := _VALUE.match(name, at)):
            inside.pop()
            at = value.end()
            continue
        at = token.end() + int(token["length"] or 0)
        found = found or token["old"] is not None
        if token["unknown"] or at > len(name) or (token["end"] and not inside):
            return False
        if token["open"] or (token[0] == "L" and inside[-1:] in (["I"], ["J"])):
            inside.append(token[0][0])
        elif token["end"] and (after := _AFTER.get(inside.pop())):
            at += len(after.match(name, at)[0])  # type: ignore[index]
    return found and not inside


@frozen
class AbiCounts:
    """Symbols of an object that speak for one or the other C++ ABI of libstdc++."""

    verdict: Literal[0, 1] | None
    """The ABI by majority; null without evidence or with equal counts."""
    new: int
    old: int
    new_examples: tuple[str, ...] = ()
    """The first names, imports before the rest."""
    old_examples: tuple[str, ...] = ()

    def against(self, wanted: int) -> tuple[str, ...]:
        """Return example symbols of the ABI that is not wanted."""
        return self.old_examples if wanted == NEW else self.new_examples


def classify(source: ElfObject | Symbols) -> AbiCounts:
    """Count the evidence in an object's dynamic symbols, or in a symbol table.

    Local names (they exist in a static table only) are definitions.
    """
    symbols = source.symbols if isinstance(source, ElfObject) else source
    imports = symbols.undefined + symbols.undefined_weak
    # What an object imports from other libraries is what fails at load time, so it leads the examples.
    ordered = (
        *(name for name in imports if not _OF_STD.match(name)),
        *(name for name in symbols.defined + symbols.local if not _OF_STD.match(name)),
        *(name for name in imports if _OF_STD.match(name) and not _SUPPORT.match(name)),
    )
    mangled = dict.fromkeys(name for name in ordered if name.startswith("_Z"))
    new = [name for name in mangled if _NEW.search(name)]
    others = (name for name in mangled if _PERHAPS_OLD.search(name) and not _NEW.search(name))
    old = list(filter(old_abi_in, others))
    return AbiCounts(
        verdict=None if len(new) == len(old) else 1 if len(new) > len(old) else 0, new=len(new),
        old=len(old), new_examples=tuple(new)[:_EXAMPLES], old_examples=tuple(old)[:_EXAMPLES],
    )  # fmt: skip
