#!/usr/bin/env python3
"""How fast explain reads a log: MB/s, against ``bytes.count`` over the same data, and the memory it takes.

The ratio to ``bytes.count`` says more than the seconds: it does not depend on the machine's load.
"""

from __future__ import annotations

import argparse
import io
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.explain_logs import embed, samples

from xpubuild.explain.document import explain_stream
from xpubuild.explain.load import shipped_rules


class Repeated(io.RawIOBase):
    """A stream that gives the same data again and again."""

    def __init__(self, data: bytes, total: int) -> None:
        self._data, self._left, self._place = data, total, 0

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        size = min(size, self._left, len(self._data) - self._place)
        piece = self._data[self._place : self._place + size]
        self._place = (self._place + size) % len(self._data)
        self._left -= size
        return piece


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    total = parser.parse_args().megabytes * 1_000_000
    data = embed(samples()[0].lines, before=60000, after=20000)
    shipped_rules()
    started = time.process_time()
    for _ in range(total // len(data)):
        data.count(b"\n")
    base = time.process_time() - started
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    answer = explain_stream(Repeated(data, total))
    spent = time.process_time() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(
        f"{total / 1e6:.0f} MB, {answer.lines} lines: {spent:.2f} s of CPU, {total / 1e6 / spent:.1f} MB/s, "
        f"{spent / base:.0f} times bytes.count, {grown / 1024:.1f} MiB more memory\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
