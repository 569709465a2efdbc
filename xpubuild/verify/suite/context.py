"""The context of a check, and how it reports its result."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .backends import Backend


class CheckFailedError(Exception):
    """The device, torch or an extension gave a wrong result; the message is the detail."""


class CheckSkippedError(Exception):
    """The check does not apply here; the message is the reason."""


class CheckFaultError(Exception):
    """The check itself is at fault: its reference is NaN or warned. The device may be right."""


class SuiteContext:
    """The device under test, and the notes and metrics of one check.

    ``torch`` is the imported module, ``device`` a ``torch.device`` and ``module`` the backend's own module
    (``torch.xpu``). ``required`` are the optional parts whose absence is a failure, ``options`` are
    command-line options that some checks read (``source``). ``planned`` are the ids of all checks of this
    process. ``progress`` reports how far a long check is.
    """

    def __init__(
        self, backend: Backend, required: frozenset[str], options: Mapping[str, str] | None = None
    ) -> None:
        self.backend = backend
        self.required = required
        self.options = dict(options or {})
        self.planned: tuple[str, ...] = ()
        self.progress: Callable[[str], None] = lambda _: None
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self.metrics: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}

    @property
    def torch(self) -> Any:
        """Return torch, imported on first use: the import is a separate check."""
        import torch

        return torch

    @property
    def device(self) -> Any:
        """Return the device under test."""
        return self.torch.device(self.backend.name)

    @property
    def module(self) -> Any:
        """Return the backend's module; ``torch.get_device_module`` is missing in the oldest releases."""
        return getattr(self.torch, self.backend.name)

    def switch(self, paths: Iterable[str]) -> tuple[Any, str] | None:
        """Return (home, name) of the first of some settings below ``torch.backends`` that this torch has.

        The others are not looked at: torch raises an error for an old name where new ones were set.
        """
        for path in paths:
            home, _, name = path.rpartition(".")
            found = functools.reduce(
                lambda one, part: getattr(one, part, None), home.split("."), self.torch.backends
            )
            if hasattr(found, name):
                return found, name
        return None

    def full_precision(self) -> None:
        """Disable TF32 in this process: some backends use it by default."""
        if found := self.switch(self.backend.tf32_switches):
            setattr(*found, "ieee" if found[1] == "fp32_precision" else False)
        if any(switch.startswith("cudnn.") for switch in self.backend.tf32_switches):
            # Export and fused convolutions ask for the old switch, which torch does not report where a new
            # one says otherwise. It sets them all, also that of recurrent networks.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the new names are preferred
                self.torch.backends.cudnn.allow_tf32 = False

    def imported(self, name: str, part: str) -> Any:
        """Return an optional package; end the check where it is missing or cannot be imported."""
        if importlib.util.find_spec(name) is None:
            self.absent(part, f"{name} is not installed")
        try:
            module = importlib.import_module(name)
        except Exception as error:
            raise CheckFailedError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
        if version := getattr(module, "__version__", None):
            self.metric("version", str(version))
            self.note(f"{name} {version}")
        return module

    def note(self, text: str) -> None:
        """Add to the detail that is shown with the result."""
        self.notes.append(text)

    def warn(self, text: str) -> None:
        """Add a warning, which is not a failure."""
        self.warnings.append(text)

    def metric(self, name: str, value: Any) -> None:
        """Record a metric; a float that JSON cannot represent becomes text."""
        if isinstance(value, float) and not math.isfinite(value):
            value = str(value)
        self.metrics[name] = value

    def within(self, name: str, value: float, limit: float) -> None:
        """Record an error and its limit, and fail if it is larger (or NaN)."""
        self.metric(name, value)
        self.metric(f"{name}_limit", limit)
        if not value <= limit:
            raise CheckFailedError(f"{name.replace('_', ' ')} is {value:.3g}, the limit is {limit:.3g}")

    def absent(self, part: str, reason: str) -> NoReturn:
        """End the check because an optional part is missing: a skip, or a failure if it is required."""
        if part in self.required:
            raise CheckFailedError(f"{reason}; --require makes this a failure")
        raise CheckSkippedError(reason)


def require(condition: object, message: str) -> None:
    """Fail the check with ``message`` unless the condition holds."""
    if not condition:
        raise CheckFailedError(message)
