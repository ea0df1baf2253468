"""The guard: who is let in, and what is refused before any page sees it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hush.studio.guard import MOST_BODY_BYTES
from hush.studio.owner import OwnerStudio
from hush.studio.owner_app import opening_file
from studio_visitor import CODE, Visitor, describe_people, running, write_people

PRIVATE_PAGES = ("/data", "/columns", "/budget/effect", "/confirm", "/releases", "/ledger", "/columns/schema.toml")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A server that its owner has entered; copies of the visitor without the cookie are strangers."""
    folder = tmp_path_factory.mktemp("guard")
    studio = OwnerStudio(folder)
    studio.choose(str(write_people(folder / "people.csv")))
    with running(studio) as visitor:
        describe_people(visitor.enter())
        yield visitor


def test_the_code_opens_the_page_once(tmp_path: Path) -> None:
    with running(OwnerStudio(tmp_path)) as visitor:
        assert visitor.post("/enter", {"code": "a guess"}).status == 403
        assert visitor.post("/enter", {"code": ""}).status == 403
        first = visitor.post("/enter", {"code": CODE})
        flags = {part.strip().lower() for part in first.headers["set-cookie"].split(";")}
        assert {"httponly", "samesite=strict", "path=/"} <= flags
        assert visitor.get("/data").status == 200
        second = Visitor(visitor.port).post("/enter", {"code": CODE})
        assert second.status == 403
        assert "used already" in second.page.alerts[0]
        assert "set-cookie" not in second.headers


@pytest.mark.parametrize("path", PRIVATE_PAGES)
def test_strangers_see_nothing(server: Visitor, path: str) -> None:
    assert server.get(path).status == 200
    name = server.cookie.split("=")[0]
    for cookie in ("", f"{name}=guess", f"{name}=", "garbage; ==;\x01"):
        reply = Visitor(server.port, cookie).get(path)
        assert reply.status == 403
        assert b"people" not in reply.body


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "localhost:{port}", "127.0.0.1", "127.0.0.1:{port}.evil.example", ""],
)
def test_a_rebound_name_is_refused(server: Visitor, host: str) -> None:
    reply = server.get("/columns", Host=host.format(port=server.port))
    assert reply.status in (400, 421)
    assert b"people" not in reply.body


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_posts_of_other_sites_are_refused(server: Visitor, headers: dict[str, str]) -> None:
    sent = {name: value.format(port=server.port) for name, value in headers.items()}
    for path in ("/people", "/spend", "/ledger/raise", "/columns/check"):
        reply = server.post(path, {"seen": ""}, **sent)
        assert reply.status == 403
        assert b"another site" in reply.body


def test_pages_are_not_for_frames_scripts_or_images_of_other_sites(server: Visitor) -> None:
    for site in ("cross-site", "same-site"):
        assert server.get("/columns", Sec_Fetch_Site=site).status == 403
    for site in ("same-origin", "none"):
        assert server.get("/columns", Sec_Fetch_Site=site).status == 200


def test_every_answer_has_the_security_headers(server: Visitor) -> None:
    replies = [server.get(path) for path in (*PRIVATE_PAGES, "/style.css", "/studio.js", "/none")]
    replies += [server.get("/data", Host="evil.example"), server.post("/spend", {"token": "x"})]
    for reply in replies:
        assert "script-src 'self'" in reply.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert "server" not in reply.headers


def test_other_methods_are_refused(server: Visitor) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert server.send(method, "/data").status == 405


def test_bodies_are_bounded(server: Visitor) -> None:
    too_large = str(MOST_BODY_BYTES + 1)
    assert server.send("POST", "/columns", b"", Content_Length=too_large).status == 413
    # without a length, chunk by chunk
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        head = (
            f"POST /columns HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: http://127.0.0.1:{server.port}\r\n"
            f"Cookie: {server.cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        )
        connection.sendall(head.encode())
        chunk = b"10000\r\n" + b"a=" + b"a" * 0xFFFD + b"&\r\n"
        answer = b""
        try:
            for _ in range(MOST_BODY_BYTES // 0x10000 + 2):
                connection.sendall(chunk)
            connection.sendall(b"0\r\n\r\n")
        finally:
            answer = connection.recv(64)
    assert answer.startswith(b"HTTP/1.1 413")


def test_files_cannot_be_uploaded(server: Visitor) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="a"; filename="b"\r\n\r\ntext\r\n--x--\r\n'
    reply = server.send("POST", "/columns", body, Content_Type="multipart/form-data; boundary=x")
    assert reply.status == 400


def test_the_file_that_opens_the_page_is_for_its_owner_alone() -> None:
    path = opening_file("secret-code", 1234)
    try:
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
        text = path.read_text()
        assert 'action="http://127.0.0.1:1234/enter"' in text
        assert "?" not in text.split('action="')[1].split('"')[0]
        assert text.count("secret-code") == 1
    finally:
        path.unlink()
        path.parent.rmdir()
