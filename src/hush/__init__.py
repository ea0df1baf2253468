"""hush: differentially private answers, tables and synthetic copies of a sensitive table.

A name loads its module when it is first used, so that `import hush` costs next to nothing.
"""

from typing import TYPE_CHECKING

from hush._version import __version__

if TYPE_CHECKING:
    from hush import audit, datasets, evaluation, hybrid, mechanisms, pareto, queries
    from hush.core.constraints import Constraint
    from hush.core.domain import Domain
    from hush.core.errors import HushError
    from hush.loading import load
    from hush.models.graphical.model_size import model_size_mb
    from hush.planning import plan, plan_for_error
    from hush.privacy.budget import Budget
    from hush.privacy.ledger import Ledger
    from hush.privacy.measurement import Measurement
    from hush.privacy.sensitivity import Neighbours
    from hush.quick_count import count
    from hush.release.answers import Answers
    from hush.release.fit import fit
    from hush.release.model import Model
    from hush.release.release import Release
    from hush.schema import Schema
    from hush.synthesizer import Synthesizer, synthesize
    from hush.tables import read
    from hush.workloads import Workload
else:  # unseen by type checkers, to which a module with __getattr__ has every name
    _HOMES = {
        "Answers": "hush.release.answers",
        "Budget": "hush.privacy.budget",
        "Constraint": "hush.core.constraints",
        "Domain": "hush.core.domain",
        "HushError": "hush.core.errors",
        "Ledger": "hush.privacy.ledger",
        "Measurement": "hush.privacy.measurement",
        "Model": "hush.release.model",
        "Neighbours": "hush.privacy.sensitivity",
        "Release": "hush.release.release",
        "Schema": "hush.schema",
        "Synthesizer": "hush.synthesizer",
        "Workload": "hush.workloads",
        "count": "hush.quick_count",
        "fit": "hush.release.fit",
        "load": "hush.loading",
        "model_size_mb": "hush.models.graphical.model_size",
        "plan": "hush.planning",
        "plan_for_error": "hush.planning",
        "read": "hush.tables",
        "synthesize": "hush.synthesizer",
    }

    def __getattr__(name: str) -> object:
        """A public name from its home, or a module of the package; kept, so that it is looked up once."""
        from importlib import import_module

        if name in _HOMES:
            globals()[name] = value = getattr(import_module(_HOMES[name]), name)
            return value
        if name.isidentifier() and not name.startswith("_"):
            try:
                return import_module(f"hush.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"hush.{name}":
                    raise
        from difflib import get_close_matches

        near = get_close_matches(name, __all__, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(__all__)}"
        raise AttributeError(f"module 'hush' has no attribute {name!r}; {hint}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Answers",
    "Budget",
    "Constraint",
    "Domain",
    "HushError",
    "Ledger",
    "Measurement",
    "Model",
    "Neighbours",
    "Release",
    "Schema",
    "Synthesizer",
    "Workload",
    "__version__",
    "audit",
    "count",
    "datasets",
    "evaluation",
    "fit",
    "hybrid",
    "load",
    "mechanisms",
    "model_size_mb",
    "pareto",
    "plan",
    "plan_for_error",
    "queries",
    "read",
    "synthesize",
]
