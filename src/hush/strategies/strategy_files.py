"""Residual strategies in files: sets, noise and bases as arrays.

Linear strategies in files: factors once each, parts as groups of attributes with their costs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.archive import ArchiveReader
from hush.domain import Domain
from hush.errors import ArchiveError, HushError
from hush.privacy.rational import parse_rational, rational_text
from hush.privacy.sensitivity import Neighbours
from hush.strategies.axis_strategy import Factor, IdentityFactor, LevelsFactor, MatrixFactor
from hush.strategies.closure import Closure
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.product_strategy import Part, Recovery
from hush.strategies.residual_basis import Basis, MatrixBasis, PlainBasis
from hush.strategies.residual_strategy import ResidualStrategy
from hush.workloads.workload_files import pack_cliques, unpack_cliques

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


LONGEST_COST = 512  # characters


def pack_linear(strategy: LinearStrategy) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """The manifest entry and the arrays of a strategy."""
    place = {name: index for index, name in enumerate(strategy.domain)}
    known: dict[Factor, int] = {}
    parts = [
        {
            "groups": [[place[name] for name in group] for group in part.groups],
            "factors": [known.setdefault(factor, len(known)) for factor in part.factors],
            "cost": rational_text(part.cost),
        }
        for part in strategy
    ]
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    factors = [_describe(factor, f"factor_{index}", arrays) for factor, index in known.items()]
    entry = {
        "method": strategy.method,
        "recovery": strategy.recovery.value,
        "noise": strategy.noise.value,
        "neighbours": strategy.neighbours.name,
        "factors": factors,
        "parts": parts,
    }
    return entry, arrays


def unpack_linear(domain: Domain, entry: Any, archive: ArchiveReader) -> LinearStrategy:
    """The strategy that `pack_linear` stored; one that contradicts itself is refused."""
    try:
        factors = [_factor(item, f"factor_{index}", archive) for index, item in enumerate(entry["factors"])]
        noise, neighbours = NoiseKind(entry["noise"]), Neighbours[entry["neighbours"]]
        names = domain.attributes
        parts = []
        for item in entry["parts"]:
            groups = tuple(tuple(names[_whole(place, len(names))] for place in group) for group in item["groups"])
            own = tuple(factors[_whole(index, len(factors))] for index in item["factors"])
            if not isinstance(item["cost"], str) or len(item["cost"]) > LONGEST_COST:
                raise ArchiveError("a part of the file's strategy states no cost; make it anew")
            cost = parse_rational(item["cost"], "cost")
            if cost <= 0 or cost.denominator & (cost.denominator - 1):  # binary fractions add up fast
                raise ArchiveError("a part of the file's strategy states no proper cost; make it anew")
            parts.append(Part(groups, tuple(domain.sizes(group) for group in groups), own, cost, noise, neighbours))
        method = entry["method"]
        if not isinstance(method, str) or len(method) > 100:
            raise ArchiveError("the file's strategy states no method; make it anew")
        return LinearStrategy(domain, tuple(parts), Recovery(entry["recovery"]), method)
    except ArchiveError:
        raise
    except (HushError, KeyError, IndexError, TypeError, ValueError, ArithmeticError):
        raise ArchiveError("the file's strategy cannot be read; make it anew") from None


def _describe(factor: Factor, name: str, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    match factor:
        case IdentityFactor():
            return {"kind": "identity", "size": factor.size}
        case LevelsFactor():
            return {"kind": "levels", "size": factor.size, "levels": factor.levels, "total": factor.total}
        case MatrixFactor():
            arrays[name] = narrow(factor.matrix)
            return {"kind": "matrix", "scale": factor.scale}
    raise TypeError(f"no way to store {factor!r}")


def _factor(entry: Any, name: str, archive: ArchiveReader) -> Factor:
    match entry["kind"]:
        case "identity":
            return IdentityFactor(_whole(entry["size"], 2**31))
        case "levels":
            levels, total = _whole(entry["levels"], 2**31), _whole(entry["total"], 2**31)
            return LevelsFactor(_whole(entry["size"], 2**31), levels=levels, total=total)
        case "matrix":
            return MatrixFactor(archive.array(name), _whole(entry["scale"], 2**31))
    raise ArchiveError("the file has a factor of an unknown kind; upgrade hush")


def narrow(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same integers in the smallest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = (np.int8, np.int16, np.int32, np.int64)
    fitting = next(kind for kind in kinds if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(fitting)


def _whole(value: Any, beyond: int) -> int:
    """An integer from a file, at least 0 and below a bound; True is no integer."""
    if type(value) is not int or not 0 <= value < beyond:
        raise ArchiveError("the file's strategy has a number out of range; make it anew")
    return value
