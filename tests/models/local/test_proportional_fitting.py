import numpy as np

from hush.models.local.proportional_fitting import proportional_fit


def test_margins_without_a_joint_table_still_give_the_total() -> None:
    same, other = np.eye(2) * 5, 5 - np.eye(2) * 5
    margins = [(("a", "b"), same), (("b", "c"), same), (("a", "c"), other)]
    assert proportional_fit(("a", "b", "c"), margins, (2, 2, 2), 10.0).sum() == 10.0
