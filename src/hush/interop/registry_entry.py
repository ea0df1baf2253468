"""An entry of a release for a public registry of deployments, with the field names of the OpenDP registry.

Fields that only people can fill in are arguments, or stay empty: nothing is invented.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from hush.core.errors import BudgetError
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.release.release import Release

NOTIONS = {"pure": "Pure DP", "approximate": "Approximate DP", "rho": "Zero-concentrated DP", "mu": "Gaussian DP"}
SHOWN_TABLES = 20


def registry_entry(
    release: Release,
    *,
    name: str,
    curators: Sequence[str],
    intended_use: str,
    description: str = "",
    region: str = "",
    sector: str = "",
    published: dt.date | None = None,
    data_product_type: str = "Summary statistics",
) -> dict[str, Any]:
    """The entry as texts, numbers and lists, for JSON or YAML.

    What the release knows is filled in: the flavor of differential privacy, the unit, the parameters, the model, the
    mechanism. A release that is not private is refused.

    Privacy: holds what the privacy statement of the release says, and none of its numbers. If the schema was
    discovered, the parameters are those of the release and of the discovery together.
    """
    statement = release.statement
    if not statement.private:
        raise BudgetError(f"the release is not private, so it is no deployment: {' '.join(statement.warnings)}")
    budget, unit = statement.budget, statement.unit
    parameters = budget.to_dict()
    facts = dict(release.statement_lines())
    if "Discovery" in facts:  # a person is in both, so the entry states what both cost together
        if release.spent is None:
            raise BudgetError("the costs of the release and of its discovered schema do not add up; release anew")
        budget = Budget(epsilon=release.spent[0], delta=release.spent[1] or None)
        parameters = budget.to_dict()
    notion = "pure" if budget.pure else "approximate" if budget.approximate else "mu" if "mu" in parameters else "rho"
    relation = "replacing" if statement.neighbours is Neighbours.REPLACE else "adding or removing"
    one = (
        "one row"
        if unit.column is None
        else f"all rows of one {unit.column}, of which at most {unit.max_rows} are used"
    )
    asked = [" x ".join(term.clique) or "total" for term in release.workload]
    more = f" and {len(asked) - SHOWN_TABLES} more" if len(asked) > SHOWN_TABLES else ""
    discovery = f" Schema: {facts['Discovery']}." if "Discovery" in facts else ""
    found = [column.name for column in release.schema if column.discovered is not None]
    levels = f"public, or found with noise that was paid for ({', '.join(found)})" if found else "public"
    return {
        "status": "Draft",
        "deployment": {
            "product": {
                "name": name,
                "data_curators": list(curators),
                "intended_use": intended_use,
                "data_product_type": data_product_type,
                "data_product_region": region,
                "description": description,
                "publication_date": None if published is None else published.isoformat(),
                "data_product_sector": sector,
            },
            "dp_flavor": {
                "name": NOTIONS[notion],
                "data_domain": f"Tables with the columns {', '.join(release.domain)}, whose levels are {levels}.",
                "unprotected_quantities": "The number of units, which neighbours share."
                if statement.neighbours is Neighbours.REPLACE
                else "None that hush knows of: the schema was not drafted from the rows.",
            },
            "privacy_loss": {
                "privacy_unit": "Row" if unit.column is None else unit.column,
                "privacy_unit_description": f"Neighbours differ by {relation} {one}.",
                "privacy_parameters": parameters,
                "privacy_parameters_description": f"Spent: {facts['Spent']}.{discovery}",
            },
            "model": {
                "model_name": "Central",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "composition": "The exact cost of every measurement is charged before rows are read, and added up.",
                "post_processing": "All answers and synthetic rows are computed from the noisy measurements alone.",
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": "",
                "mechanisms": f"{release.mechanism} of hush {statement.version}; noise: {facts['Noise']}. "
                f"Asked: {', '.join(asked[:SHOWN_TABLES])}{more}.",
                "justification": "",
            },
            "resources": {"sources": "", "registry_authors": []},
        },
    }
