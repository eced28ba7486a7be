"""Make wrong calls in a separate process, because a call may end the process.

    python tests/fuzz/child.py FIRST LAST STEP

makes the calls FIRST, FIRST + STEP, ... below LAST. Each call is printed before it is made, and its result afterwards.
"""

import itertools
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch

from tgp.testing.cases import pooler_cases
from tgp.testing.checks.refusals import ACCEPTED, REFUSED, accepted_calls, refusal_problem, refused_calls

CASES = list(pooler_cases())
ROUND = len(CASES) * (len(REFUSED) + len(ACCEPTED))
"""Largest number of calls per seed. Some kinds of calls do not exist for every pooler."""


def calls():
    """Yield all calls for seeds 0, 1, 2, ... without end."""
    for seed in itertools.count():
        for case in CASES:
            pooler = case.build()
            for call in refused_calls(case, seed):
                yield case, pooler, call, True, seed
            for call in accepted_calls(case, seed):
                yield case, pooler, call, False, seed


def as_text(value):
    """Return a short description of an argument."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return repr(value)[:40]


def describe(case, call, seed):
    """Return a description of a call that is sufficient to repeat it."""
    given = [as_text(value) for value in call.args]
    given += [f"{name}={as_text(value)}" for name, value in call.kwargs.items()]
    return f"{case}, {call.kind}, seed {seed}: ({', '.join(given)})"


def main(first, last, step):
    """Make the calls and report them as lines of JSON."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for number, (case, pooler, call, refused, seed) in enumerate(itertools.islice(calls(), last)):
        if number < first or (number - first) % step:
            continue
        print(json.dumps({"number": number, "call": describe(case, call, seed)}), flush=True)
        problem = refusal_problem(pooler, call, refused)
        print(json.dumps({"number": number, "problem": problem}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
