"""Which operators of torch a piece of code calls."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def called() -> Iterator[set[str]]:
    """Yield a set that takes the names of operators as they are called, without the mark of in-place ones."""
    mode: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
    seen: set[str] = set()

    class Recorder(mode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(function._schema.name.partition("::")[2].rstrip("_"))
            return function(*args, **(kwargs or {}))

    with Recorder():
        yield seen
