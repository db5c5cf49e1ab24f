"""PyTorch's tensors in our memory."""

import gc

import pytest

from rmm.allocators.torch import rmm_torch_allocator

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture(scope="module", autouse=True)
def allocator():
    try:
        torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
    except RuntimeError:
        pytest.skip("PyTorch has allocated already")


def test_a_tensor_is_of_the_current_resource(counted):
    tensor = torch.zeros(10, device="cuda")
    assert counted.allocation_counts.current_count == 1
    del tensor
    gc.collect()
    assert counted.allocation_counts.current_count == 0
