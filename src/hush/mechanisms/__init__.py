"""Mechanisms: each selects, measures and reconstructs; a mechanism object goes wherever its name goes.

>>> import hush
>>> workload = hush.Workload.kway(hush.Domain({"age": 85, "sex": 2}), 2)
>>> hush.plan(workload, hush.Budget(rho=0.5), mechanism=Residual(loss="maxvar"))
Plan(residual, 1 tables, rho=0.5)
"""

from hush.mechanisms.aim import AIM
from hush.mechanisms.baselines import AllZero, Direct, Gaussian, Independent
from hush.mechanisms.dawa import DAWA
from hush.mechanisms.hdmm import HDMM
from hush.mechanisms.matrix import Matrix
from hush.mechanisms.mechanism import Mechanism, StrategyMechanism
from hush.mechanisms.mst import MST
from hush.mechanisms.published.dualquery import DualQuery
from hush.mechanisms.published.gem import GEM
from hush.mechanisms.published.mwem import MWEM
from hush.mechanisms.published.privbayes import PrivBayes
from hush.mechanisms.published.privmrf import PrivMRF
from hush.mechanisms.published.privsyn import PrivSyn
from hush.mechanisms.published.swift import SWIFT
from hush.mechanisms.rap import RAP
from hush.mechanisms.release_job import ReleaseJob
from hush.mechanisms.residual import Residual
from hush.mechanisms.scout import Scout
from hush.strategies.noise_allocation import ConvexLoss, MaxOfSums, MaxVariance, SumOfVariances

__all__ = [
    "AIM",
    "DAWA",
    "GEM",
    "HDMM",
    "MST",
    "MWEM",
    "RAP",
    "SWIFT",
    "AllZero",
    "ConvexLoss",
    "Direct",
    "DualQuery",
    "Gaussian",
    "Independent",
    "Matrix",
    "MaxOfSums",
    "MaxVariance",
    "Mechanism",
    "PrivBayes",
    "PrivMRF",
    "PrivSyn",
    "ReleaseJob",
    "Residual",
    "Scout",
    "StrategyMechanism",
    "SumOfVariances",
]
