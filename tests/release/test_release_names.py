"""Attributes one by one or as one clique: one rule for what a release and its model are asked."""

from typing import Any

import numpy as np
import pytest

import hush
from hush.core.errors import DomainError
from hush.testing import TinyTable

DOMAIN = hush.Domain({"a": 2, "b": 3, "c": 2})
TABLE = TinyTable(DOMAIN, [(0, 1, 0), (1, 2, 1), (1, 0, 0)])
RELEASE = hush.plan(hush.Workload.kway(DOMAIN, 2), hush.Budget(rho=1.0)).release(TABLE)
MODEL = RELEASE.model()
WAYS: list[tuple[Any, ...]] = [("b", "a"), (("b", "a"),), (["b", "a"],)]


@pytest.mark.parametrize("source", [RELEASE, MODEL], ids=["release", "model"])
def test_both_forms_mean_the_same(source: Any) -> None:
    for ask in (lambda *names: source.counts(*names), lambda *names: source.marginal(*names).estimate):
        first, *others = (np.asarray(ask(*names)) for names in WAYS)
        assert all(np.array_equal(first, other) for other in others)
    assert source.counts("b", "a").shape == (3, 2)
    assert np.array_equal(source.counts("a"), source.counts(("a",)))
    assert source.counts(()).shape == source.counts().shape == ()


@pytest.mark.parametrize("source", [RELEASE, MODEL], ids=["release", "model"])
@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((3,), "clique 3.*: expected names of columns"),
        (("a", ("b",)), r"attribute \('b',\) is not in the domain"),
        ((("a", "bb"),), "attribute 'bb' is not in the domain; did you mean 'b'"),
        (("a", "a"), "names an attribute twice"),
    ],
)
def test_what_names_no_columns_is_refused(source: Any, names: tuple[Any, ...], text: str) -> None:
    for ask in (source.counts, source.marginal):
        with pytest.raises(DomainError, match=text):
            ask(*names)


def test_notebooks_show_what_was_asked_and_promised() -> None:
    page = RELEASE._repr_html_()
    for text in ("<table>", "one row", "rho=1", "a × b, a × c, b × c", "release.sql("):
        assert text in page
    odd = hush.Domain({"<b>": 2, **{f"c{k}": 2 for k in range(20)}})
    release = hush.plan(hush.Workload.kway(odd, 1), hush.Budget(rho=1.0)).release(TinyTable(odd, [(0,) * 21]))
    assert "&lt;b&gt;" in release._repr_html_()
    assert "and 9 more" in release._repr_html_()


def test_a_notebook_fits_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    release = hush.plan(hush.Workload.kway(DOMAIN, 2), hush.Budget(rho=1.0), "aim").release(TABLE)
    monkeypatch.setattr(hush.Release, "estimates", property(lambda self: 1 / 0))
    assert "aim" in release._repr_html_()
