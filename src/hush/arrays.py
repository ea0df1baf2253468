"""Arrays: the types of numpy arrays that signatures name, and tables of numbers over named attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]
