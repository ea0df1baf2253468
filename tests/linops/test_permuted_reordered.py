import itertools

import numpy as np
import pytest

from hush.linops import Dense, Permuted
from hush.linops.permuted import Reordered
from hush.testing.operators import check_operator

SIZES = (2, 3, 4)
MATRIX = np.random.default_rng(0).normal(size=(5, 24))


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))))
def test_is_the_permutation_of_cells(axes: tuple[int, ...]) -> None:
    cells = np.arange(24).reshape(SIZES).transpose(axes).ravel()
    check_operator(Reordered(Dense(MATRIX), SIZES, axes), dense=Permuted(Dense(MATRIX), cells.tolist()).dense())
