"""The public page and its API: what they answer, what they refuse, and that they only read the release."""

import io
import json
import socket
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

import hush
import hush.studio.public_app as public_app_module
from hush.core.errors import QueryError, SizeError
from hush.schema import Integer
from hush.studio.owner_app import bound_socket, server_config
from hush.studio.public_app import (
    PublicApp,
    PublicLimits,
    PublicRelease,
    public_app,
    public_server,
)
from hush.studio.public_limits import MOST_BODY_BYTES, HeldConnections, PromptConnection
from studio_visitor import Reply, Visitor, serving

LIMITS = PublicLimits(most_rows=500, requests_per_second=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(2000, seed=1), schema)
    plan = hush.plan("<=2-way", hush.Budget(epsilon=2.0, delta=1e-9), "residual", schema=schema)
    plan.release(table).save(folder / "people.hush")
    return folder


@pytest.fixture(scope="module")
def app(folder: Path) -> PublicApp:
    return public_app(folder / "people.hush", limits=LIMITS)


@pytest.fixture(scope="module")
def visitor(app: PublicApp) -> Iterator[Visitor]:
    listening = bound_socket(0)
    with serving(public_server(app), listening) as port:
        yield Visitor(port)
    app.desk.close()


def asked(visitor: Visitor, path: str, **parameters: str) -> Reply:
    """A question to the API."""
    return visitor.get(f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")


def test_sql_and_tables_are_those_of_the_release(visitor: Visitor, folder: Path) -> None:
    release = hush.load(folder / "people.hush")
    assert isinstance(release, hush.Release)
    query = "SELECT sex, COUNT(*) AS n FROM t WHERE age >= 40 GROUP BY sex"
    for reply in (
        asked(visitor, "sql", query=query, level="0.9"),
        visitor.send(
            "POST", "/api/v1/sql", json.dumps({"query": query, "level": 0.9}), Content_Type="application/json"
        ),
    ):
        assert reply.status == 200
        assert json.loads(reply.body) == release.sql(query, level=0.9).to_dict()
    reply = asked(visitor, "table", columns="sex,region")
    assert json.loads(reply.body) == release.marginal("sex", "region").to_dict()
    assert json.loads(asked(visitor, "table", columns='["sex"]').body) == release.marginal("sex").to_dict()
    assert json.loads(asked(visitor, "release").body)["statement"] == release.statement.to_dict()


def test_rows_come_as_csv_and_parquet(visitor: Visitor) -> None:
    csv = asked(visitor, "rows", rows="50", seed="3")
    parquet = asked(visitor, "rows", rows="50", seed="3", form="parquet")
    assert "rows.csv" in csv.headers["content-disposition"]
    as_csv = pyarrow.csv.read_csv(io.BytesIO(csv.body))
    rows = pyarrow.parquet.read_table(io.BytesIO(parquet.body))
    assert as_csv.num_rows == rows.num_rows == 50
    assert as_csv["age"].to_pylist() == rows["age"].to_pylist()
    assert visitor.get("/rows.csv?rows=50&seed=3").body == csv.body
    assert asked(visitor, "rows", rows="50", seed="4").body != csv.body


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("sql?query=DROP TABLE t", "SELECT"),
        ("sql?query=SELECT COUNT(*) FROM t WHERE agee > 3", "agee"),
        ("sql", "query is missing"),
        ("sql?query=SELECT COUNT(*) FROM t&level=2", "level"),
        ("sql?query=SELECT COUNT(*) FROM t&level=nan", "level"),
        ("sql?query=" + "x" * 5000, "too long"),
        ("table?columns=age,nobody", "nobody"),
        ("table?columns=", "name the columns"),
        ("table?columns=[1]", "expected names"),
        ("rows?rows=501", "from 1 to 500"),
        ("rows?rows=-1", "from 1 to 500"),
        ("rows?form=exe", "csv or parquet"),
        ("rows?seed=-1", "whole number"),
        ("rows?seed=" + "9" * 40, "whole number"),
    ],
)
def test_refused_questions_say_why(visitor: Visitor, path: str, words: str) -> None:
    reply = visitor.get("/api/v1/" + path.replace(" ", "%20"))
    assert reply.status == 400
    assert words in json.loads(reply.body)["error"]


def test_large_tables_are_refused_before_they_are_worked_out(visitor: Visitor) -> None:
    every = list(hush.datasets.people_schema().domain)
    names = ", ".join(every)
    assert "cells" in json.loads(asked(visitor, "table", columns=",".join(every)).body)["error"]
    reply = asked(visitor, "sql", query=f"SELECT {names}, COUNT(*) FROM t GROUP BY {names}")
    assert (reply.status, "cells" in json.loads(reply.body)["error"]) == (400, True)


def test_names_in_brackets_and_long_lists_do_not_pass_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_app_module, "MOST_ANSWER_NUMBERS", 50_000)
    sizes = {"hours a year": 2000, "days a year": 400, "weeks off": 10}
    schema = hush.Schema([Integer(name=name, low=0, high=size - 1) for name, size in sizes.items()])
    rows = pa.table({name: [1, 2, 3] for name in sizes})
    release = hush.plan("1-way", hush.Budget(rho=0.5), schema=schema).release(hush.read(rows, schema))
    public = PublicRelease(release, title="hours", file_name="hours.hush", limits=LIMITS)
    for grouped in ("[hours a year], [days a year], [weeks off]", '"hours a year", "days a year", "weeks off"'):
        with pytest.raises(QueryError, match="has 8,000,000 cells"):
            public.sql({"query": f"SELECT COUNT(*) FROM t GROUP BY {grouped}"})
    ten = ", ".join(["COUNT(*)"] * 10)
    with pytest.raises(QueryError, match="lists 10 numbers for each of 800,000 cells"):
        public.sql({"query": f"SELECT {ten} FROM t GROUP BY [hours a year], [days a year]"})
    for times, words in ((10, None), (30, "the answer has 2,000 rows: at most 1,666 are sent")):
        query = {"query": f"SELECT {', '.join(['COUNT(*)'] * times)} FROM t GROUP BY [hours a year]"}
        if words is None:
            assert public.sql(query).status == 200
            continue
        with pytest.raises(SizeError, match=words):
            public.sql(query)
    with pytest.raises(QueryError, match="lists 31 things"):
        public.sql({"query": f"SELECT {', '.join(['MEDIAN([hours a year])'] * 31)} FROM t"})


@pytest.mark.parametrize("body", ["", "{", "[]", '{"query": 3, "else": 1}', "[" * 5000, '{"query": "\\ud800"}'])
def test_bodies_that_are_no_question_are_refused(visitor: Visitor, body: str) -> None:
    assert visitor.send("POST", "/api/v1/sql", body, Content_Type="application/json").status == 400


def test_sizes_and_methods_are_bounded(visitor: Visitor) -> None:
    assert visitor.send("POST", "/api/v1/sql", b"", Content_Length=str(MOST_BODY_BYTES + 1)).status == 413
    assert visitor.get("/?sql=" + "x" * 20_000).status == 414
    for method in ("PUT", "DELETE", "PATCH"):
        refused = visitor.send(method, "/report")
        assert (refused.status, set(refused.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert visitor.send("POST", "/report").status == 405
    assert (
        visitor.get("/budget").status == visitor.get("/columns").status == visitor.get("/../etc/passwd").status == 404
    )


def test_the_page_shows_tables_answers_and_the_report(visitor: Visitor) -> None:
    page = visitor.get(
        "/?columns=sex%2Cregion&sql=SELECT%20COUNT(*)%20FROM%20t%20WHERE%20age%20%3E%2040", Accept="text/html"
    )
    assert page.status == 200
    assert page.page.alerts == []
    assert "svg" in page.page.tags
    assert visitor.get("/?column=sex&column=&column=region").location == "/?columns=sex%2Cregion#tables"
    assert "The privacy promise" in visitor.get("/report").page.text
    refused = visitor.get("/?sql=SELECT%20nothing", Accept="text/html")
    assert refused.status == 200
    assert refused.page.alerts
    assert visitor.get("/none", Accept="text/html").page.alerts


def test_every_answer_has_security_headers_and_sets_no_cookie(visitor: Visitor) -> None:
    for path in ("/", "/api", "/none", "/api/v1/sql", "/openapi.json", "/style.css"):
        headers = visitor.get(path).headers
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert not {"set-cookie", "server", "access-control-allow-origin"} & set(headers)


def test_the_description_lists_every_address_of_the_api(visitor: Visitor, app: PublicApp) -> None:
    description = json.loads(visitor.get("/openapi.json").body)
    assert description["openapi"].startswith("3.1")
    examples = {"columns": "sex", "query": "SELECT COUNT(*) FROM t"}
    assert len(description["paths"]) == 5
    for path, methods in description["paths"].items():
        for operation in methods.values():
            assert operation["responses"].keys() >= {"200", "400", "429", "503"}
        needed = {p["name"]: examples[p["name"]] for p in methods["get"]["parameters"] if p.get("required")}
        assert visitor.get(f"{path}?{urllib.parse.urlencode(needed)}").status == 200
        assert path in visitor.get("/api").page.text


def test_only_a_request_with_a_body_is_said_to_have_one(visitor: Visitor) -> None:
    assert visitor.get("/api").body.decode().count("JSON body") == 1


def test_answers_are_kept_and_parameters_that_mean_nothing_are_ignored(visitor: Visitor, app: PublicApp) -> None:
    first = asked(visitor, "sql", query="SELECT COUNT(*) FROM t WHERE age > 77")
    before = app.desk.kept_bytes
    second = asked(visitor, "sql", query="SELECT COUNT(*) FROM t WHERE age > 77", buster="1")
    assert first.body == second.body
    assert app.desk.kept_bytes == before


def test_visitors_who_ask_too_often_are_told_to_wait(folder: Path) -> None:
    slow = public_app(folder / "people.hush", limits=PublicLimits(requests_per_second=0.3))
    listening = bound_socket(0)
    with serving(public_server(slow), listening) as port:
        replies = [Visitor(port).get("/api/v1/columns") for _ in range(5)]
    slow.desk.close()
    assert [reply.status for reply in replies] == [200, 200, 200, 429, 429]
    assert int(replies[-1].headers["retry-after"]) > 0


def test_a_visitor_holds_only_a_share_of_the_connections(folder: Path) -> None:
    app = public_app(folder / "people.hush", limits=PublicLimits(most_connections=20))
    listening = bound_socket(0)
    with serving(public_server(app), listening) as port:
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        assert Visitor(port).get("/style.css").status == 429
        held.pop().close()
        end = time.monotonic() + 20
        while (status := Visitor(port).get("/style.css").status) == 429 and time.monotonic() < end:
            time.sleep(0.02)
        assert status == 200
        held.pop().close()
    app.desk.close()


def test_a_visitor_who_does_not_read_an_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PromptConnection, "seconds", 0.05)
    monkeypatch.setattr(PromptConnection, "most_looks", 4)

    async def long_answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})

    held = HeldConnections(1)
    config: Any = server_config(long_answer)
    config.http = partial(PromptConnection, held=held)
    listening = bound_socket(0)
    with serving(uvicorn.Server(config), listening) as port:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            end = time.monotonic() + 20
            while not held.take("127.0.0.1") and time.monotonic() < end:
                time.sleep(0.02)
        assert time.monotonic() < end


def test_visitors_who_send_no_request_do_not_keep_others_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PromptConnection, "seconds", 0.2)
    listening = bound_socket(0)
    body = b"POST /api/v1/sql HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
    app = public_app(folder / "people.hush", limits=replace(LIMITS, most_connections=4))
    with serving(public_server(app), listening) as port:
        for begun in (b"", b"GET / HT", body):
            held = [socket.create_connection(("127.0.0.1", port)) for _ in range(6)]
            for connection in held:
                connection.settimeout(5.0)
                connection.sendall(begun)
            for connection in held:
                while connection.recv(4096):  # ends once the server has closed it, and raises TimeoutError before
                    pass
                connection.close()
        assert Visitor(port).get("/style.css").status == 200
