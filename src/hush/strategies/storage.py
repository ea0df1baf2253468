"""Residual strategies in files: sets, noise and bases as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.archive import ArchiveReader
from hush.domain import Domain
from hush.errors import ArchiveError, HushError
from hush.privacy.neighbours import Neighbours
from hush.privacy.rational import parse_rational, rational_text
from hush.strategies.basis import Basis, MatrixBasis, PlainBasis
from hush.strategies.closure import Closure
from hush.strategies.residual import ResidualStrategy
from hush.workloads.storage import pack_cliques, unpack_cliques

LARGEST_SCALE = 2**62  # entries are below 2^31, and scales about as large
LONGEST_RHO = 4096  # characters; the smallest float squared has 1400, and a million would take seconds to read


def pack_strategy(strategy: ResidualStrategy) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """The manifest entry and the arrays of a strategy."""
    arrays = pack_cliques(strategy.domain, strategy.closure, "closure")
    arrays["sigma_squared"] = strategy.sigma_squared
    bases: list[Any] = []
    for place, basis in enumerate(strategy.bases):
        if isinstance(basis, MatrixBasis):
            arrays[f"basis_{place}"] = basis.matrix
            bases.append(basis.scale)
        else:
            bases.append(None if basis is None else "plain")
    return {"bases": bases, "rho": rational_text(strategy.rho), "neighbours": strategy.neighbours.name}, arrays


def unpack_strategy(domain: Domain, entry: Any, archive: ArchiveReader) -> ResidualStrategy:
    """The strategy that `pack_strategy` stored; one that contradicts itself or its cost is refused."""
    try:
        bases: list[Basis | None] = []
        for place, (name, stated) in enumerate(zip(domain, entry["bases"], strict=True)):
            if stated is None:
                bases.append(None)
            elif stated == "plain":
                bases.append(PlainBasis(domain[name]))
            elif type(stated) is not int or not 1 <= stated < LARGEST_SCALE:  # a float may be infinite; True is an int
                raise ArchiveError(f"the file's basis {place} states no scale; make it anew")
            else:
                bases.append(MatrixBasis(archive.array(f"basis_{place}"), stated))
        cliques = unpack_cliques(domain, archive, "closure")
        closure = Closure.of(domain, cliques)
        if closure.cliques != tuple(cliques):
            raise ArchiveError("the file's measured sets are not a closure in order; make it anew")
        if not isinstance(entry["rho"], str) or len(entry["rho"]) > LONGEST_RHO:
            raise ArchiveError("the file's strategy states no rho; make it anew")
        return ResidualStrategy(
            domain,
            tuple(bases),
            closure,
            archive.array("sigma_squared"),
            parse_rational(entry["rho"], "rho"),
            Neighbours[entry["neighbours"]],
        )
    except ArchiveError:
        raise
    except (HushError, KeyError, TypeError, ValueError, ArithmeticError):
        raise ArchiveError("the file's strategy cannot be read; make it anew") from None
