"""Linear strategies in files: factors once each, parts as groups of attributes with their costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.archive import ArchiveReader
from hush.domain import Domain
from hush.errors import ArchiveError, HushError
from hush.privacy.neighbours import Neighbours
from hush.privacy.rational import parse_rational, rational_text
from hush.strategies.draft import Recovery
from hush.strategies.factor import Factor, IdentityFactor, MatrixFactor
from hush.strategies.levels_factor import LevelsFactor
from hush.strategies.linear import LinearStrategy
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.part import Part

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
