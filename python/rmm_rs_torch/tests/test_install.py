"""`rmm_rs.torch.install` with the real modules, and a stand-in for the rest of PyTorch."""

from __future__ import annotations

import pytest
from conftest import Run

pytest.importorskip("rmm_rs._rmm", reason="rmm-rs is not installed")


def test_pytorch_allocates_from_the_current_resource(run: Run) -> None:
    run("""
import torch, rmm_rs, rmm_rs.torch
rmm_rs.torch.install()
rmm_rs.torch.install()
torch.cuda.init()
for size in (1000, 3000):
    pool = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.CudaMemoryResource(), "1MiB")
    rmm_rs.mr.set_current_device_resource(pool)
    block = torch.allocate(size)
    assert pool.statistics()["live_bytes"] >= size
    torch.free(block)
    assert pool.statistics()["live_bytes"] == 0
""")


def test_a_resource_and_a_specification_serve(run: Run) -> None:
    run("""
import torch, rmm_rs, rmm_rs.torch
pool = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.CudaMemoryResource(), "1MiB")
rmm_rs.torch.install(pool)
torch.cuda.init()
kept = torch.allocate(1000)
assert pool.statistics()["live_bytes"] >= 1000
try:
    rmm_rs.torch.install("pool(cuda)")
except RuntimeError as error:
    assert "already" in str(error)
else:
    raise AssertionError("a second pool was taken")
""")
    run("""
import torch, rmm_rs, rmm_rs.torch
rmm_rs.torch.install("statistics(pool(cuda))")
torch.cuda.init()
torch.free(torch.allocate(1000))
""")


def test_a_text_that_is_no_specification_installs_nothing(run: Run) -> None:
    run("""
import torch, rmm_rs.torch
for text in ("", "pool(cuda", "nonsense"):
    try:
        rmm_rs.torch.install(text)
    except ValueError as error:
        assert str(error)
    else:
        raise AssertionError("installed")
assert torch.cuda.memory.get_allocator_backend() == "native"
rmm_rs.torch.install("pool")
""")
    code = "import torch; print(torch.cuda.memory.get_allocator_backend())"
    text = run(code, STAND_IN_AUTOLOAD="1", RMM_RS_TORCH="pool(")
    assert "RMM_RS_TORCH=pool( has no effect" in text and "native" in text


def test_a_backend_in_the_settings_is_read_before_the_allocator_is_another(run: Run) -> None:
    code = """
import torch, rmm_rs.torch
rmm_rs.torch.install("pool(cuda)")
torch.cuda.init()
torch.free(torch.allocate(1000))
"""
    for backend in ("native", "cudaMallocAsync"):
        text = run(code, PYTORCH_ALLOC_CONF=f"backend:{backend}")
        assert "no effect on rmm-rs: backend" in text


def test_install_comes_before_the_first_use_of_cuda(run: Run) -> None:
    run("""
import torch, rmm_rs.torch
torch.cuda.init()
try:
    rmm_rs.torch.install()
except RuntimeError as error:
    assert "directly after `import torch`" in str(error)
else:
    raise AssertionError("installed")
assert torch.cuda.memory.get_allocator_backend() == "native"
""")


def test_graphs_need_a_pool(run: Run) -> None:
    run("""
import torch, rmm_rs, rmm_rs.torch
memory = rmm_rs.mr.CudaMemoryResource()
try:
    rmm_rs.torch.install(memory)
except ValueError as error:
    assert "graphs=False" in str(error)
else:
    raise AssertionError("installed")
rmm_rs.torch.install(memory, graphs=False)
torch.cuda.init()
torch.free(torch.allocate(1000))
""")


@pytest.mark.parametrize(
    "shown", ["2.10.0", "2.99.1+cu140", "2.14.0.dev20261001", "2.14.0rc1", "3.0.0"]
)
def test_other_versions_are_refused(run: Run, shown: str) -> None:
    text = run(
        """
import torch, rmm_rs.torch
try:
    rmm_rs.torch.install()
except ImportError as error:
    print(error)
else:
    raise AssertionError("installed")
assert torch.cuda.memory.get_allocator_backend() == "native"
""",
        shown,
    )
    assert f"PyTorch {shown}" in text
    assert "install --upgrade rmm-rs-torch" in text and 'fallback="pluggable"' in text


def test_the_pluggable_allocator_is_a_fallback(run: Run) -> None:
    text = run(
        """
import torch, rmm_rs.torch, sys, types
sys.modules["rmm_rs.allocators.torch"] = types.SimpleNamespace(rmm_torch_allocator="pluggable")
rmm_rs.torch.install(fallback="pluggable")
assert torch.cuda.memory.changed_to == ["pluggable"]
""",
        "2.99.0",
    )
    assert "RuntimeWarning" in text and "PyTorch 2.99.0" in text


def test_a_variable_installs_when_pytorch_is_imported(run: Run) -> None:
    code = "import torch; print(torch.cuda.memory.get_allocator_backend())"
    assert run(code, STAND_IN_AUTOLOAD="1") == "native\n"
    assert run(code, STAND_IN_AUTOLOAD="1", RMM_RS_TORCH="0") == "native\n"
    assert run(code, STAND_IN_AUTOLOAD="1", RMM_RS_TORCH="1") == "rmm-rs\n"
    assert run(code, STAND_IN_AUTOLOAD="1", RMM_RS_TORCH="pool(cuda)") == "rmm-rs\n"
    broken = run(code, "2.99.0", STAND_IN_AUTOLOAD="1", RMM_RS_TORCH="1")
    assert "RMM_RS_TORCH=1 has no effect" in broken and "native" in broken


def test_settings_without_effect_are_named(run: Run) -> None:
    code = "import torch, rmm_rs.torch; rmm_rs.torch.install()"
    settings = "pinned_use_background_threads:True,max_split_size_mb:64,expandable_segments:True"
    text = run(code, PYTORCH_CUDA_ALLOC_CONF=settings)
    assert "no effect on rmm-rs: max_split_size_mb, expandable_segments" in text
    assert run(code, PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.5") == ""


def test_tensors_in_globals_end_quietly(run: Run) -> None:
    text = run("""
import torch, rmm_rs.torch
rmm_rs.torch.install("pool(cuda)")
torch.cuda.init()
import atexit
block = torch.allocate(1000)
atexit.register(lambda: torch.free(block))
""")
    assert text == ""
