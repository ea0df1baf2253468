"""Compiled kernels: numba's `njit`, but numba is imported only when a kernel is first called.

Importing numba takes longer than most queries, and many commands need no kernel. Kernels call each other by name, so
the first call of a kernel passes all kernels named in its module to numba.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

_COMPILE_LOCK = threading.RLock()


class Kernel:
    """A function that numba compiles when it is first called."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.function, self.options = function, options
        self._dispatcher: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """The result of the compiled function."""
        dispatcher = self._dispatcher
        return (self.dispatcher() if dispatcher is None else dispatcher)(*arguments)

    def dispatcher(self) -> Callable[..., Any]:
        """The function of numba, which replaces the kernel in its module, together with all kernels it may call."""
        with _COMPILE_LOCK:
            if self._dispatcher is None:
                import numba

                names = self.function.__globals__
                kernels = {name: value for name, value in names.items() if isinstance(value, Kernel)}
                here = {name: kernel for name, kernel in kernels.items() if kernel.function.__globals__ is names}
                here.setdefault(self.function.__name__, self)
                elsewhere = {name: kernels[name].dispatcher() for name in kernels.keys() - here.keys()}
                ready = {name: numba.njit(**kernel.options)(kernel.function) for name, kernel in here.items()}
                names.update({name: value for name, value in (ready | elsewhere).items() if name in kernels})
                for name, kernel in here.items():  # last, since other threads call what is set here
                    kernel._dispatcher = ready[name]
            assert self._dispatcher is not None  # noqa: S101
            return self._dispatcher


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """The decorator of a kernel, with the options of `numba.njit`.

    >>> @njit(nogil=True)
    ... def doubled(number):
    ...     return 2 * number
    >>> doubled(21)
    42
    """
    return lambda function: Kernel(function, options)
