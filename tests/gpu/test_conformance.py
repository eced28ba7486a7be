"""The checks of all poolers on CUDA. They are skipped without CUDA."""

import pytest
import torch

from tgp.testing import pooler_checks

if not torch.cuda.is_available():
    pytest.skip("needs CUDA", allow_module_level=True)


@pytest.mark.parametrize("check", pooler_checks(device="cuda", slow=False), ids=str)
def test_pooler(check):
    check()
