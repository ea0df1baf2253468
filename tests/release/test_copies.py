"""Several tables of made-up rows, and statistics over them."""

import numpy as np
import pytest

import hush
from hush.core.errors import WorkloadError
from hush.release.copies import Copies, copy_seeds

DOMAIN = hush.Domain({"sex": 2, "smokes": 3})
MODEL = hush.fit(DOMAIN, [hush.Measurement(("sex", "smokes"), [[40.0, 12.0, 8.0], [30.0, 4.0, 6.0]], stddev=0.01)])


def share(table: object) -> float:
    return float((table["smokes"].to_numpy() == 0).mean())  # type: ignore[index]


def test_copies_are_tables_of_the_wished_rows_that_differ() -> None:
    copies = MODEL.synthesize(50, copies=4, seed=3, method="sampling")
    assert isinstance(copies, Copies)
    assert [table.num_rows for table in copies] == [50] * 4
    assert len({table["smokes"].to_numpy().tobytes() for table in copies}) == 4
    assert isinstance(copies[1:], Copies)
    assert len(copies[1:]) == 3
    assert copies[-1] == copies[3]


def test_the_seed_repeats_all_copies_and_more_copies_begin_with_the_same() -> None:
    first, again, more = (MODEL.synthesize(20, copies=count, seed=5) for count in (2, 2, 4))
    assert list(first) == list(again) == list(more[:2])
    assert copy_seeds(3, None) != copy_seeds(3, None)


def test_the_variance_between_copies_is_that_of_drawing_rows() -> None:
    rows, m = 400, 400
    copies = MODEL.synthesize(rows, copies=m, seed=1, method="sampling")
    found = copies.estimate(share)
    p = 0.7
    assert float(found.mean) == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / rows / m))
    assert float(found.between_variance) == pytest.approx(p * (1 - p) / rows, rel=5 * np.sqrt(2 / m))
    rounded = MODEL.synthesize(rows, copies=20, seed=1).estimate(share)
    assert float(rounded.between_variance) < float(found.between_variance) / 20


def test_statistics_may_be_arrays_of_one_shape() -> None:
    copies = MODEL.synthesize(30, copies=3, seed=2)
    found = copies.estimate(lambda table: np.bincount(table["smokes"].to_numpy(), minlength=3))
    assert found.mean.shape == found.between_variance.shape == (3,)
    assert found.mean.sum() == pytest.approx(30)
    lengths = iter([1, 2, 3])
    with pytest.raises(WorkloadError, match="different shapes"):
        copies.estimate(lambda table: np.zeros(next(lengths)))


def test_one_copy_has_no_variance_and_none_no_estimate() -> None:
    assert np.isnan(MODEL.synthesize(10, copies=1, seed=0).estimate(share).between_variance)
    with pytest.raises(WorkloadError, match="no copies"):
        MODEL.synthesize(10, copies=1, seed=0)[1:].estimate(share)


def test_the_warning_is_said_wherever_copies_are_shown() -> None:
    copies = MODEL.synthesize(10, copies=2, seed=0)
    for text in (repr(copies), str(copies), str(copies.estimate(share))):
        assert "differ only by chance in drawing rows" in text
        assert "too small" in text


@pytest.mark.parametrize("copies", [0, -1, True, 1.5, "2", 10_001])
def test_copies_are_a_number_of_copies(copies: object) -> None:
    with pytest.raises(WorkloadError, match="copies="):
        MODEL.synthesize(10, copies=copies)  # type: ignore[call-overload]


def test_a_release_gives_copies_of_its_model() -> None:
    table = hush.read(hush.datasets.people(500, seed=1), hush.datasets.people_schema())
    release = hush.plan(hush.Workload.kway(table.domain, 1), hush.Budget(rho=1.0)).release(table)
    assert list(release.synthesize(10, copies=2, seed=4)) == list(release.model().synthesize(10, copies=2, seed=4))
    with pytest.raises(WorkloadError, match="copies=0"):
        release.synthesize(10, copies=0)
