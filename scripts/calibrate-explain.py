#!/usr/bin/env python3
"""Fits the weights of xpubuild/explain/estimate.py, and prints what cross-validation says about them.

Each sample is judged by the answer that the rules gave before they were written from it, and compared with
known failures of other threads only; the weights are those of the other nine tenths.
"""

from __future__ import annotations

import sys

from docgen.calibration import MISSES, cases, cross_validated, fitted

from xpubuild.explain.estimate import LIKELY, told

_BANDS = (0.95, 0.9, 0.8, 0.7, 0.5, 0.0)


def main() -> int:
    """Print the figures."""
    known = cases()
    out = sys.stdout.write
    out(f"{fitted(known)}\n")
    answers = cross_validated(known)
    for name, some in (("sets", True), ("misses of the last set", False)):
        of = [item for item in answers if (item[0].rules_of != MISSES) == some]
        before = [(case.stated[0] if case.stated else None) for case, _, _ in of]
        out(f"{name}: {len(of)}\n  rules alone: right first {sum(bool(b and b.right) for b in before)}")
        out(f", misleading {sum(bool(b and not b.right and (b.rule or 0) >= LIKELY) for b in before)}")
        out(f", helpful {sum(bool(b and b.helps) for b in before)}\n")
        judged = [best for _, _, best in of if best and best.helps is not None]
        out(f"  with known failures: right first {sum(bool(best and best.right) for _, _, best in of)}")
        out(f", misleading {sum(told(p) >= LIKELY and not (b and b.right) for _, p, b in of)}")
        out(f", helpful {sum(bool(b.helps) for b in judged)} of {len(judged)}\n")
        top = 1.1
        for least in _BANDS:
            band = [best for _, sure, best in of if least <= sure < top]
            out(f"    {least:.2f} {len(band):4} right {sum(bool(best and best.right) for best in band)}\n")
            top = least
    return 0


if __name__ == "__main__":
    sys.exit(main())
