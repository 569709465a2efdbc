#!/bin/sh
# pip-at-least.sh PYTHON VERSION: upgrade the pip of an environment where it is older than VERSION (X.Y).
set -eu
"$1" - "$2" <<'PYTHON' || "$1" -m pip install --quiet --upgrade "pip>=$2"
import sys, pip
numbers = [tuple(int(part) for part in text.split(".")[:2] if part.isdigit()) for text in (pip.__version__, sys.argv[1])]
sys.exit(numbers[0] < numbers[1])
PYTHON
