"""Wheels of one environment are in one process: they must agree on the SYCL runtime."""

from __future__ import annotations

from typing import Any

import pytest

from xpubuild.artifacts.audit_checks import check_documents
from xpubuild.errors import AuditError


def _wheel(name: str, *needed: str) -> dict[str, Any]:
    library = {"path": f"{name}/lib{name}.so", "needed": list(needed), "found": {}, "soname": ""}
    return {"file": f"{name}-1-py3-none-any.whl", "objects": [library]}


def test_one_runtime_for_all_passes() -> None:
    check_documents(
        [_wheel("torch", "libsycl.so.8", "libc.so.6"), _wheel("ops", "libsycl.so.8"), _wheel("x")]
    )


def test_two_runtimes_are_refused_and_named() -> None:
    with pytest.raises(AuditError) as caught:
        check_documents([_wheel("torch", "libsycl.so.8"), _wheel("ops", "libsycl.so.7")])
    assert "libsycl.so.7" in caught.value.why
    assert "torch-1-py3-none-any.whl:torch/libtorch.so" in caught.value.why
