"""The description of the public API for programs, in OpenAPI 3.1, and for people, as a page."""

from __future__ import annotations

from typing import Any

from hush._version import __version__
from hush.render.html_page import page_table
from hush.render.markup import Markup, join, tag
from hush.schema import Schema
from hush.studio.explore import DEFAULT_ROWS
from hush.studio.layout import bullet_list, copied

PREFIX = "/api/v1"
LEVEL: dict[str, Any] = {
    "name": "level",
    "in": "query",
    "description": "Confidence level of the intervals.",
    "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95},
}
ANSWER: dict[str, Any] = {
    "type": "object",
    "description": "Rows of labels, each with its estimate, standard error and interval; null where none is known.",
    "properties": {
        "groups": {"type": "array", "items": {"type": "string"}},
        "values": {"type": "array", "items": {"type": "string"}},
        "level": {"type": "number"},
        "rows": {"type": "array", "items": {"type": "object"}},
        "notes": {"type": "array", "items": {"type": "string"}},
    },
}


def api_description(schema: Schema, *, title: str, most_rows: int) -> dict[str, Any]:
    """The API of a release."""
    sql = {"type": "string", "minLength": 1, "maxLength": 4096, "examples": ["SELECT COUNT(*) FROM t"]}
    columns = {"type": "string", "minLength": 1, "examples": [schema.columns[0].name]}
    rows = {"type": "integer", "minimum": 1, "maximum": most_rows, "default": min(DEFAULT_ROWS, most_rows)}
    form = {"type": "string", "enum": ["csv", "parquet"], "default": "csv"}
    seed = {"type": "integer", "minimum": 0, "default": 0}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": __version__,
            "description": "Counts, averages and synthetic rows of a differentially private release. Every answer "
            "comes with its error. Asking costs no privacy.",
        },
        "paths": {
            f"{PREFIX}/release": {"get": _operation("What was released, and the privacy it promises.", [], _object())},
            f"{PREFIX}/columns": {"get": _operation("The columns and their levels.", [], _object())},
            f"{PREFIX}/table": {
                "get": _operation(
                    "The table of counts over some columns.",
                    [_parameter("columns", "Names between commas, or a list in JSON.", columns, required=True), LEVEL],
                    ANSWER,
                )
            },
            f"{PREFIX}/sql": {
                "get": _operation(
                    "The answer to a counting query.",
                    [_parameter("query", "SQL; the table may have any name.", sql, required=True), LEVEL],
                    ANSWER,
                ),
                "post": _operation("The answer to a counting query.", [], ANSWER)
                | {
                    "requestBody": {
                        "required": True,
                        "content": {
                            "application/json": {
                                "schema": {
                                    "type": "object",
                                    "required": ["query"],
                                    "additionalProperties": False,
                                    "properties": {"query": sql, "level": LEVEL["schema"]},
                                }
                            }
                        },
                    }
                },
            },
            f"{PREFIX}/rows": {
                "get": _operation(
                    "Synthetic rows. The same seed gives the same rows.",
                    [
                        _parameter("rows", "How many.", rows),
                        _parameter("form", "CSV or Parquet.", form),
                        _parameter("seed", "Which rows are drawn.", seed),
                    ],
                    None,
                )
            },
        },
    }


def _parameter(name: str, description: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "description": description, "schema": schema}


def _object() -> dict[str, Any]:
    return {"type": "object"}


def _operation(summary: str, parameters: list[dict[str, Any]], answer: dict[str, Any] | None) -> dict[str, Any]:
    binary: dict[str, Any] = {"text/csv": {}, "application/vnd.apache.parquet": {}}
    error = {"application/json": {"schema": {"type": "object", "properties": {"error": {"type": "string"}}}}}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "The answer.",
                "content": binary if answer is None else {"application/json": {"schema": answer}},
            },
            "400": {"description": "The question was refused; the error says what to change.", "content": error},
            "413": {"description": "The body is too long.", "content": error},
            "414": {"description": "The address is too long; send the query with POST.", "content": error},
            "429": {"description": "Too many requests of one visitor.", "content": error},
            "503": {"description": "Too many questions wait; ask again later.", "content": error},
        },
    }


def api_page(description: dict[str, Any]) -> Markup:
    """The API for people."""
    listed = []
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            names = ", ".join(parameter["name"] for parameter in operation["parameters"])
            given = names or ("JSON body" if "requestBody" in operation else "")
            listed.append((tag("code", f"{method.upper()} {path}"), operation["summary"], given))
    example = f'curl -G http://HOST{PREFIX}/sql --data-urlencode "query=SELECT COUNT(*) FROM t"'
    return join(
        tag("p", "Every answer is JSON with estimates, standard errors and intervals. Asking costs no privacy."),
        page_table(("request", "answer", "parameters"), listed),
        copied(example, "the example"),
        tag("p", "For programs: ", tag("a", "the description in OpenAPI", href="/openapi.json"), "."),
        bullet_list(
            [
                "A question that is refused has the status 400 and says why.",
                "Too many requests have the status 429; the header Retry-After says when to come back.",
            ]
        ),
    )
