"""The studio in a real browser: the whole way on a table of 30 columns, with hostile names, at three widths."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hush
from browser import Browser
from hush.studio.owner import OwnerStudio
from hush.studio.owner_app import bound_socket
from hush.studio.public_app import public_app, public_server
from postgres_server import Server
from studio_visitor import CODE, running, serving, write_people

pytestmark = pytest.mark.browser

WIDTHS = (400, 800, 1280)
NUMBERS = [f"num_{i}" for i in range(10)]
LETTERS = [f"cat_{i}" for i in range(17)]
HOSTILE = ['<script>document.title="run"</script>', '"><img src=x onerror=alert(1)>']
HOSTILE_LEVELS = ["</style><h1>", "' onclick='x", "\u202ereversed"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an invented table of 30 columns."""
    folder, drawn = tmp_path_factory.mktemp("browser"), np.random.default_rng(1)
    with (folder / "people.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*NUMBERS, *LETTERS, "person_id", *HOSTILE])
        for i in range(1000):
            letters = ["abcd"[k] for k in drawn.integers(0, 4, len(LETTERS))]
            hostile = [HOSTILE_LEVELS[k] for k in drawn.integers(0, 3, 2)]
            rows.writerow([*drawn.integers(0, 100, len(NUMBERS)), *letters, i, *hostile])
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def check(browser: Browser) -> None:
    """A page has no serious finding of accessibility, nothing beyond its edge, and no script of a name has run."""
    assert browser.accessibility() == []
    for width in WIDTHS:
        browser.resize(width)
        assert browser.beyond() == []
        assert browser.run("document.documentElement.scrollWidth") == width
    assert browser.problems == []
    assert browser.run("document.title") != "run"
    assert browser.run("document.querySelectorAll('main img, main script, main h1 h1').length") == 0


def bulk(browser: Browser, words: str, kind: str, fields: dict[str, str]) -> None:
    """Search columns, choose all that are shown, and change them at once."""
    browser.type("#search", words)
    browser.click("#choose-all")
    browser.choose("#bulk-kind", kind)
    for name, text in fields.items():
        browser.type(f"[name=bulk-{name}]", text)
    browser.go("#bulk button", "/columns")


def test_the_whole_way(browser: Browser, folder: Path) -> None:
    with running(OwnerStudio(folder)) as visitor:
        base = f"http://127.0.0.1:{visitor.port}"
        # The link opens the page; its code leaves the address.
        browser.open(base)
        check(browser)
        browser.call("Page.navigate", url="about:blank")
        browser.call("Page.navigate", url=f"{base}/#{CODE}")
        browser.wait("location.pathname === '/data' && document.readyState === 'complete'")
        assert CODE not in browser.run("location.href")
        check(browser)
        # Data, and thirty columns by two edits for many and two by hand.
        browser.choose("#file", "people.csv")
        browser.go("form button[type=submit]", "/columns")
        assert browser.run("document.querySelectorAll('#columns tbody tr').length") == 30
        check(browser)
        browser.call("Emulation.setEmulatedMedia", media="print")
        assert browser.run("document.querySelector('#columns tbody tr').offsetHeight > 0")
        assert browser.run("document.querySelector('[value=next]').offsetHeight") == 0
        browser.call("Emulation.setEmulatedMedia", media="")
        bulk(browser, "num_", "integer", {"low": "0", "high": "99", "bins": "5"})
        bulk(browser, "cat_", "categorical", {"values": "a\nb\nc\nd"})
        shown = "[...document.querySelectorAll('#columns tbody tr')].filter(row => !row.hidden).length"
        assert browser.run(shown) == len(LETTERS)  # the search stays
        browser.choose("#search", "")
        for index in (28, 29):
            browser.type(f"[name=c{index}-values]", "\n".join(HOSTILE_LEVELS))
        browser.choose("#filter", "unfinished")
        assert browser.run(shown) == 2
        browser.go("[value=save]", "/columns")  # comes back with the same filter; nothing is unfinished now
        assert browser.run(shown) == 0
        browser.go("[value=next]", "/people")
        check(browser)
        # People and questions.
        browser.choose("#unit", "person_id")
        browser.type("#rows", "1000")
        browser.go("form button[type=submit]", "/questions")
        browser.click("[name=order][value='1']")
        browser.choose("[name=table]", HOSTILE[0])
        browser.choose("[name=table]:nth-of-type(2)", "cat_0")
        browser.go("[value=add-table]", "/questions")
        browser.choose("[name=average]", "num_0")
        check(browser)
        browser.go("[value=next]", "/budget")
        # The effect is shown while the budget is typed; nothing is spent.
        browser.wait("document.querySelector('#effect').textContent.includes('± ')")
        by_accuracy = browser.run("document.querySelector('#effect').textContent")
        browser.click("[name=way][value=epsilon]")
        browser.type("#epsilon", "3")
        browser.wait("document.querySelector('#effect').textContent.includes('epsilon 3')")
        assert browser.run("document.querySelector('#effect').textContent") != by_accuracy
        browser.type("#cap", "7")
        check(browser)
        browser.dark()
        assert browser.accessibility() == []
        browser.dark(False)
        browser.go("#budget-form > button", "/confirm")
        check(browser)
        assert not (folder / "budget.db").exists()
        # Confirm by a double click; then the release.
        browser.click("#spend")
        browser.wait("document.querySelector('#explore')")
        check(browser)
        browser.go("#explore", "/releases/people-1.hush")
        ledger = hush.Ledger.open(folder / "budget.db")
        assert {entry.release for entry in ledger.entries()} == {"", "people-1.hush"}
        # A table with its picture, and a query that is completed by keys.
        browser.choose("[name=column]", HOSTILE[0])
        browser.choose("[name=column]:nth-of-type(2)", "cat_0")
        browser.go("#tables form button", "/releases")
        assert browser.run("document.querySelectorAll('#table svg[role=img]').length") == 1
        assert browser.run("document.querySelectorAll('#table tbody tr').length") >= 12
        check(browser)
        browser.type("#sql", "SELECT COUNT(*) FROM t WHERE num_")
        browser.wait("document.querySelector('#suggestions li')")
        browser.key("ArrowDown")
        browser.key("Tab")
        assert browser.run("document.querySelector('#sql').value").endswith("WHERE num_1")
        browser.type("#sql", "SELECT COUNT(*) FROM t WHERE num_1 < 40")
        browser.go("#ask", "/releases")
        assert "95 % interval" in browser.run("document.querySelector('#answer').textContent")
        check(browser)
        # The report runs under its own policy, the ledger says what is left.
        browser.open(f"{base}/releases/people-1.hush/report")
        assert browser.problems == []
        assert browser.run("getComputedStyle(document.querySelector('h1')).fontSize") == "32px"
        browser.open(f"{base}/ledger")
        assert "One more release like people-1.hush would cost" in browser.run("document.body.textContent")
        check(browser)
        for path in ("/releases", "/discovery"):
            browser.open(base + path)
            check(browser)
        browser.open(f"{base}/columns")
        browser.click("[name=c0-discover]")
        browser.type("[name=c0-low]", "")
        browser.go("[value=save]", "/columns")
        browser.go("main .notice a", "/discovery")
        assert "Spend epsilon 0.2 at delta 1e-09 and discover" in browser.run("document.body.textContent")
        check(browser)


HIDDEN = """(() => { const part = document.activeElement, box = part.getBoundingClientRect();
    const over = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const bar = over && over.closest(".sticky");
    return Boolean(bar && !part.closest(".sticky")) || getComputedStyle(part).outlineStyle === "none"; })()"""


@pytest.mark.parametrize("width", [400, 1000])
def test_the_keys_reach_all_columns_and_what_they_reach_is_seen(browser: Browser, tmp_path: Path, width: int) -> None:
    studio = OwnerStudio(tmp_path)
    studio.choose(str(write_people(tmp_path / "people.csv")))
    with running(studio) as visitor:
        browser.resize(width, 700)
        browser.open(f"http://127.0.0.1:{visitor.port}/#{CODE}")
        browser.wait("location.pathname === '/data' && document.readyState === 'complete'")
        browser.open(f"http://127.0.0.1:{visitor.port}/columns")
        reached: list[str] = []
        while "action" not in reached and len(reached) < 100:
            browser.key("Tab")
            reached.append(browser.run("document.activeElement.name || document.activeElement.textContent"))
            assert not browser.run(HIDDEN), reached[-1]
        assert {"c2-values", "c3-discover", "action"} <= set(reached)
        assert reached.count("chosen") == 5


def test_the_whole_way_on_postgresql(browser: Browser, postgres: Server, tmp_path: Path) -> None:
    with postgres.connect() as connection:
        connection.execute("DROP TABLE IF EXISTS browser_visits")
        connection.execute(
            "CREATE TABLE browser_visits AS SELECT i AS patient_id, (i * 7) % 100 AS age, "
            "CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END AS sex FROM generate_series(1, 400) AS i"
        )
    with running(OwnerStudio(tmp_path)) as visitor:
        base = f"http://127.0.0.1:{visitor.port}"
        browser.open(f"{base}/#{CODE}")
        browser.wait("location.pathname === '/data' && document.readyState === 'complete'")
        browser.resize(1000)
        browser.type("#location", postgres.address())
        browser.click("details.more summary")
        browser.type("#table", "browser_visits")
        browser.go("form button[type=submit]", "/columns")
        browser.type("[name=c1-low]", "0")
        browser.type("[name=c1-high]", "99")
        browser.type("[name=c1-bins]", "4")
        browser.type("[name=c2-values]", "f, m")
        browser.go("[value=next]", "/people")
        browser.choose("#unit", "patient_id")
        browser.go("form button[type=submit]", "/questions")
        browser.go("[value=next]", "/budget")
        browser.wait("document.querySelector('#effect').textContent.includes('± ')")
        browser.go("#budget-form > button", "/confirm")
        check(browser)
        browser.click("#spend")
        browser.wait("document.querySelector('#explore')")
        browser.go("#explore", "/releases")
        browser.choose("[name=column]", "sex")
        browser.go("#tables form button", "/releases")
        assert browser.run("document.querySelectorAll('#table tbody tr').length") >= 2
        check(browser)


def test_the_public_page(browser: Browser, folder: Path, tmp_path: Path) -> None:
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(500, seed=1), schema)
    hush.plan("<=2-way", hush.Budget(rho=0.1), "residual", schema=schema).release(table).save(tmp_path / "a.hush")
    app = public_app(tmp_path / "a.hush", title=HOSTILE[0])
    listening = bound_socket(0)
    with serving(public_server(app), listening) as port:
        for path in ("/", "/?columns=sex", "/?columns=sex,region&sql=SELECT%20AVG(age)%20FROM%20t", "/api"):
            browser.open(f"http://127.0.0.1:{port}{path}")
            check(browser)
    app.desk.close()


def test_the_checks_find_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><html lang='en'><title>x</title><main><h1>x</h1><input><p style='color: #999'>pale</p>"
        "<p style='width: 2000px'>x</p><script>nowhere()</script></main>"
    )
    browser.open(page.as_uri())
    found = browser.accessibility()
    assert {finding.split(":")[0] for finding in found} == {"color-contrast", "label"}
    assert browser.beyond() == ["P x"]
    assert len(browser.problems) == 1
    browser.problems.clear()
