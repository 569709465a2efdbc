"""RECORD, the list of files of a wheel and of an installed distribution (PEP 376 and PEP 427)."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterator

#: Hashes that the wheel format allows; md5 and sha1 are forbidden there.
HASHES = frozenset({"sha256", "sha384", "sha512"})
_FIELDS = 3
# RECORD cannot hold its own hash, and signatures sign it.
_WITHOUT_HASH = re.compile(r"\.dist-info/RECORD(\.jws|\.p7s)?$")


def is_record_file(path: str) -> bool:
    """Whether a path is RECORD itself or a signature of it, which have no hash in RECORD."""
    return _WITHOUT_HASH.search(path) is not None


def parse_record(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (path, hash, size) of each line; hash and size may be empty.

    Raises:
        ValueError: a line has not three fields, or a path no file can have.
        csv.Error: it is no comma-separated text.
    """
    for row in csv.reader(io.StringIO(text, newline="")):
        if row and (len(row) < _FIELDS or "\0" in row[0]):
            raise ValueError(f"line {row!r} is not path, hash and size")
        if row:
            yield row[0], row[1], row[2]


def record_hash(digest: bytes, algorithm: str = "sha256") -> str:
    """Return a digest in the form that RECORD uses."""
    return f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
