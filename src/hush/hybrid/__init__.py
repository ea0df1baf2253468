"""The hybrid trust model: some people trust the curator, most do not, and both count.

People who opt in show the curator their data, and the gate protects what is published. The others are clients: their
own device randomises an answer before it leaves. Both groups get the same promise.

`hush.hybrid.client` is what runs on a device; it needs the standard library alone, so this module loads nothing until
it is asked for.

>>> from hush import hybrid
>>> question = hybrid.Question.choice("colour", ["red", "green", "blue"], epsilon=2)
>>> report = hybrid.Device().answer(question, "green")
>>> report.question == question.id
True
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hush.hybrid.blender import blend, find_head_list, head_list_questions
    from hush.hybrid.client import Device, Question, Report
    from hush.hybrid.collection import collect
    from hush.hybrid.frequency_estimates import estimate
    from hush.hybrid.heat_maps import amplification_map, gain_map
    from hush.hybrid.kmeans import hybrid_kmeans
    from hush.hybrid.mean_errors import MeanSetting, amplified_epsilon
    from hush.hybrid.mean_estimates import hybrid_mean
    from hush.hybrid.opt_in import OptInNumbers, OptInRecords
    from hush.hybrid.promises import Promise
    from hush.hybrid.simulated_reports import generator_of, simulate_reports
else:
    _HOMES = {
        "Device": "client",
        "MeanSetting": "mean_errors",
        "OptInNumbers": "opt_in",
        "OptInRecords": "opt_in",
        "Promise": "promises",
        "Question": "client",
        "Report": "client",
        "amplification_map": "heat_maps",
        "amplified_epsilon": "mean_errors",
        "blend": "blender",
        "collect": "collection",
        "estimate": "frequency_estimates",
        "find_head_list": "blender",
        "gain_map": "heat_maps",
        "generator_of": "simulated_reports",
        "head_list_questions": "blender",
        "hybrid_kmeans": "kmeans",
        "hybrid_mean": "mean_estimates",
        "simulate_reports": "simulated_reports",
    }

    def __getattr__(name: str) -> object:
        """A name from its home, kept, so that it is looked up once."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module 'hush.hybrid' has no attribute {name!r}; known: {', '.join(__all__)}")
        globals()[name] = value = getattr(import_module(f"hush.hybrid.{_HOMES[name]}"), name)
        return value


__all__ = [
    "Device",
    "MeanSetting",
    "OptInNumbers",
    "OptInRecords",
    "Promise",
    "Question",
    "Report",
    "amplification_map",
    "amplified_epsilon",
    "blend",
    "collect",
    "estimate",
    "find_head_list",
    "gain_map",
    "generator_of",
    "head_list_questions",
    "hybrid_kmeans",
    "hybrid_mean",
    "simulate_reports",
]
