"""Models: three ways to turn noisy measurements into something that answers any table and yields synthetic rows.

graphical   One joint distribution: the largest entropy among those of least loss. Exact, and the default. Its junction
            tree must fit in memory, which limits the measured cliques.
local       Tables that agree on the attributes they share. "Local" means that no joint distribution need exist. Used
            when a junction tree is too large; the loss is convex and the optimum certified, rows are approximate.
relaxed     A few hundred rows whose cells are probabilities, a mixture of product distributions. "Relaxed" because a
            cell is a distribution instead of one level. Of one size for any cliques, and it also fits single answers
            such as thresholds; its loss is not convex, and it cannot forbid combinations.

Each has a file `*_fit.py` with the one function that fits it (read that first, `graphical_fit.py` to begin with), and a
file for the fitted model. `fit_arguments.py` holds what the three fits share.
"""
