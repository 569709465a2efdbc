"""Find the pre-C++11 ``std::string`` and ``std::list`` in mangled C++ names.

``Ss`` means ``std::string`` only where the grammar of the Itanium C++ ABI (section 5.1, "External names")
expects a substitution; inside an identifier such as ``7Session`` it means nothing. So a name is parsed to
its end. One that does not follow the grammar is no evidence at all, nor is one with expressions in template
arguments or ``decltype``, which this parser leaves out.
"""

from __future__ import annotations

import re

_BUILTIN = frozenset("vwbahcstijlmxynofdegz")
_D_BUILTIN = frozenset("defhisucann")
# Operators that a function can be named after (section 5.1.3.1); cv and li take an operand and are apart.
_OPERATORS = frozenset({
    "nw", "na", "dl", "da", "aw", "ps", "ng", "ad", "de", "co", "pl", "mi", "ml", "dv", "rm", "an", "or",
    "eo", "aS", "pL", "mI", "mL", "dV", "rM", "aN", "oR", "eO", "ls", "rs", "lS", "rS", "eq", "ne", "lt",
    "gt", "le", "ge", "ss", "nt", "aa", "oo", "pp", "mm", "cm", "pm", "pt", "cl", "ix", "qu",
})  # fmt: skip
#: Classes that libstdc++ moves into the inline namespace ``std::__cxx11`` with the new ABI. ``Ss`` and ``Sb``
#: (``std::string``, ``std::basic_string``) are handled as substitutions.
_MOVED = re.compile(
    r"(?:4list|19basic_ostringstream|19basic_istringstream|18basic_stringstream|15basic_stringbuf"
    r"|11basic_regex|13match_results)I"
)
_LENGTH = re.compile(r"\d{1,7}")
_SEQUENCE = re.compile(r"S[0-9A-Z]*_")
_PARAMETER = re.compile(r"T(?:L\d*_)?\d*_")
_LITERAL_VALUE = re.compile(r"n?[0-9a-f]*(?:_n?[0-9a-f]*)?E")
_CONSTRUCTOR = re.compile(r"C[1-5]")
_INHERITED = re.compile(r"[12]")
_DESTRUCTOR = re.compile(r"D[0-5]")
_CALL_OFFSET = re.compile(r"h?n?\d+_|vn?\d+_n?\d+_")
_COUNT = re.compile(r"\d*_")
_GUARDED = re.compile(r"[0-9A-Z]*_")
_DISCRIMINATOR = re.compile(r"_\d|__\d+_")
_EXTENDED_FLOAT = re.compile(r"\d+[_xb]")


class _NotMangledError(Exception):
    """The name does not follow the grammar, or uses a part of it that is left out here."""


def old_abi_in(name: str) -> bool | None:
    """Whether a mangled name uses ``std::string`` or a sibling of the old ABI; None if it is not parsed."""
    if not name.startswith("_Z"):
        return None
    scan = _Scan(name)
    try:
        scan.encoding()
        scan.suffix()
    except (_NotMangledError, RecursionError):
        return None
    return scan.old


class _Scan:
    """A recursive descent through one mangled name; ``old`` says whether old-ABI classes were met."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = len("_Z")
        self.old = False

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def accept(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise _NotMangledError

    def match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _NotMangledError
        self.at = found.end()
        return found.group()

    def maybe(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def suffix(self) -> None:
        """A clone made by the compiler carries a suffix such as ``.constprop.0``."""
        if self.at < len(self.text) and self.peek() != ".":
            raise _NotMangledError

    def encoding(self) -> None:
        if self.peek() in ("T", "G"):
            self.special()
            return
        self.name()
        while self.peek() not in ("", "E", "."):
            self.type()

    def special(self) -> None:
        kind = self.peek(2)
        self.at += 2
        if kind in ("TV", "TT", "TI", "TS"):
            self.type()
        elif kind in ("TW", "TH", "GV"):
            self.name()
        elif kind == "GR":
            self.name()
            self.match(_GUARDED)
        elif kind == "TC":
            self.type()
            self.match(_COUNT)
            self.type()
        elif kind in ("Th", "Tv", "Tc"):
            self.thunk(kind)
        elif kind == "GT":
            # A clone for transactional memory, transaction-safe (t) or not (n).
            self.at += 1
            self.encoding()
        else:
            raise _NotMangledError

    def thunk(self, kind: str) -> None:
        if kind == "Tc":
            self.match(_CALL_OFFSET)
        else:
            self.at -= 1
        self.match(_CALL_OFFSET)
        self.encoding()

    def name(self) -> None:
        head = self.peek()
        if head == "N":
            self.nested()
        elif head == "Z":
            self.local()
        else:
            if head == "S" and self.peek(2) != "St":
                self.substitution()
            else:
                self.standard()
                self.unqualified()
            if self.peek() == "I":
                self.template_arguments()

    def standard(self) -> None:
        """``St``: what follows is a member of namespace std."""
        if self.accept("St") and _MOVED.match(self.text, self.at):
            self.old = True

    def nested(self) -> None:
        self.expect("N")
        self.accept("H")
        while self.peek() in ("r", "V", "K"):
            self.at += 1
        if self.peek() in ("R", "O"):
            self.at += 1
        while not self.accept("E"):
            self.prefix()

    def prefix(self) -> None:
        head, two = self.peek(), self.peek(2)
        if head == "I":
            self.template_arguments()
        elif two == "St":
            self.standard()
        elif head == "S":
            self.substitution()
        elif head == "T":
            self.match(_PARAMETER)
        elif head == "M":
            self.at += 1
        else:
            self.unqualified()

    def local(self) -> None:
        self.expect("Z")
        self.encoding()
        self.expect("E")
        if not self.accept("s"):
            if self.accept("d"):
                self.match(_COUNT)
            self.name()
        self.maybe(_DISCRIMINATOR)

    def unqualified(self) -> None:
        head, two = self.peek(), self.peek(2)
        if head.isdigit():
            self.source_name()
        elif head == "C":
            self.constructor()
        elif two == "DC":
            self.at += 2
            while not self.accept("E"):
                self.source_name()
        elif head == "D":
            self.match(_DESTRUCTOR)
        elif head == "U":
            self.unnamed()
        elif head == "L":
            self.at += 1
            self.unqualified()
        else:
            self.operator_name()
        while self.accept("B"):
            self.source_name()

    def constructor(self) -> None:
        if self.accept("CI"):
            self.match(_INHERITED)
            self.type()
        else:
            self.match(_CONSTRUCTOR)

    def unnamed(self) -> None:
        if self.accept("Ut"):
            self.match(_COUNT)
            return
        self.expect("Ul")
        while self.peek(2) in ("Ty", "Tn", "Tt", "Tp"):
            self.template_parameter_declaration()
        while not self.accept("E"):
            self.type()
        self.match(_COUNT)

    def template_parameter_declaration(self) -> None:
        kind = self.peek(2)
        self.at += 2
        if kind == "Tn":
            self.type()
        elif kind == "Tp":
            self.template_parameter_declaration()
        elif kind == "Tt":
            while not self.accept("E"):
                self.template_parameter_declaration()
        elif kind != "Ty":
            raise _NotMangledError

    def source_name(self) -> None:
        length = int(self.match(_LENGTH))
        if length == 0 or self.at + length > len(self.text):
            raise _NotMangledError
        self.at += length

    def operator_name(self) -> None:
        two = self.peek(2)
        self.at += 2
        if two == "cv":
            self.type()
        elif two == "li":
            self.source_name()
        elif two not in _OPERATORS:
            raise _NotMangledError

    def substitution(self) -> None:
        two = self.peek(2)
        if two in ("Sa", "Ss", "Sb", "Si", "So", "Sd"):
            self.at += 2
            self.old = self.old or two in ("Ss", "Sb")
            while self.accept("B"):
                self.source_name()
        else:
            self.match(_SEQUENCE)

    def type(self) -> None:
        head = self.peek()
        while head and head in "rVKPROCG":
            self.at += 1
            head = self.peek()
        if head == "U" and self.peek(2) not in ("Ut", "Ul"):
            self.vendor_qualified()
        elif head in _BUILTIN:
            self.at += 1
        elif head == "":
            raise _NotMangledError
        else:
            _TYPES.get(head, _Scan.name)(self)

    def vendor_qualified(self) -> None:
        self.expect("U")
        self.source_name()
        if self.peek() == "I":
            self.template_arguments()
        self.type()

    def vendor_type(self) -> None:
        self.expect("u")
        self.source_name()
        if self.peek() == "I":
            self.template_arguments()

    def substituted_type(self) -> None:
        if self.peek(2) == "St":
            self.name()
            return
        self.substitution()
        if self.peek() == "I":
            self.template_arguments()

    def parameter_type(self) -> None:
        if self.peek(2) in ("Ts", "Tu", "Te"):
            self.at += 2
            self.name()
            return
        self.match(_PARAMETER)
        if self.peek() == "I":
            self.template_arguments()

    def function(self) -> None:
        self.expect("F")
        self.accept("Y")
        while self.peek() != "E":
            if self.peek(2) in ("RE", "OE"):
                self.at += 1
            else:
                self.type()
        self.at += 1

    def array(self) -> None:
        self.expect("A")
        self.match(_COUNT)
        self.type()

    def member_pointer(self) -> None:
        self.expect("M")
        self.type()
        self.type()

    def d_type(self) -> None:
        two = self.peek(2)
        self.at += 2
        if two in ("DB", "DU"):
            self.match(_COUNT)
        elif two == "DF":
            self.match(_EXTENDED_FLOAT)
        elif two == "Dv":
            self.match(_COUNT)
            self.type()
        elif two in ("Do", "Dp", "Dx"):
            self.type()
        elif two[1:] not in _D_BUILTIN:
            raise _NotMangledError

    def template_arguments(self) -> None:
        self.expect("I")
        while not self.accept("E"):
            self.template_argument()

    def template_argument(self) -> None:
        head = self.peek()
        if head == "L":
            self.literal()
        elif head in ("J", "I"):
            self.at += 1
            while not self.accept("E"):
                self.template_argument()
        elif self.peek(2) in ("Ty", "Tn", "Tt", "Tp"):
            self.template_parameter_declaration()
            self.template_argument()
        else:
            self.type()

    def literal(self) -> None:
        self.expect("L")
        if self.accept("_Z"):
            self.encoding()
            self.expect("E")
            return
        self.type()
        self.match(_LITERAL_VALUE)


_TYPES = {
    "D": _Scan.d_type,
    "F": _Scan.function,
    "A": _Scan.array,
    "M": _Scan.member_pointer,
    "T": _Scan.parameter_type,
    "S": _Scan.substituted_type,
    "u": _Scan.vendor_type,
}
