"""What tests of the scripts share."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

PAPER = Path(__file__).resolve().parents[2] / "examples" / "paper"


@pytest.fixture(autouse=True)
def threads():
    """Scripts run on one thread; other tests need not."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def paper_script():
    """A script of the paper's experiments as a module, read once; PyG looks its layers up in ``sys.modules``."""
    read = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PAPER))

        def get(name):
            if name not in read:
                spec = importlib.util.spec_from_file_location(f"paper_{name}", PAPER / f"{name}.py")
                read[name] = importlib.util.module_from_spec(spec)
                patch.setitem(sys.modules, spec.name, read[name])
                spec.loader.exec_module(read[name])
            return read[name]

        yield get
