"""MoePlan plans, compiles and simulates the training of Mixture-of-Experts models.

`plan` chooses how to split a model over GPUs. `compile` makes a plan, `simulate` predicts the time of a step, and `explain` says why a
schedule was chosen. `Plan` opens a compiled plan. These functions run MoePlan's tools; docs/Python.md describes them.

>>> import moeplan
>>> moeplan.simulate("mixtral-8x7b", parallel="dp=8,ep=8", cluster="hgx-h100")
plan        mixtral-8x7b, baseline, train, 8 ranks (1 simulated, the others do the same)
...
"""

from ._commands import compile, explain, plan, simulate
from ._errors import CompilerWarning, Diagnostic, Error
from ._plan import Group, Plan, Program, Value, Variant
from ._results import Answer, Compilation, Explanation, Record, Result, Simulation
from ._runtime import version as __version__

__all__ = ["Answer", "Compilation", "CompilerWarning", "Diagnostic", "Error", "Explanation", "Group", "Plan", "Program", "Record", "Result",
           "Simulation", "Value", "Variant", "__version__", "compile", "explain", "plan", "simulate"]
