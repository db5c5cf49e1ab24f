"""Statistics, pools, graphs, errors and histories through PyTorch's own functions.

Tensors are empty or copied: the software device has none of PyTorch's kernels. Prints what must be
equal for both allocators.
"""

from __future__ import annotations

import sys

import torch

if sys.argv[1] == "rmm-rs":
    import rmm_rs.torch

    rmm_rs.torch.install()

MIB = 1 << 20
FIELDS = ("allocation", "allocated_bytes", "requested_bytes", "active", "active_bytes")


def report(name: str) -> None:
    """Prints the statistics of tensors."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    stats = torch.cuda.memory_stats()
    print(name, {key: value for key, value in stats.items() if key.split(".")[0] in FIELDS})


assert torch.cuda.memory.get_allocator_backend() == sys.argv[1]
assert torch.accelerator.memory_allocated() == 0
side = torch.cuda.Stream()
x = torch.arange(1000).cuda()
y = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
x.record_stream(side)
del x
report("streams")

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    x = torch.empty(MIB, device="cuda")
print("pool", pool.use_count(), len(pool.snapshot()))
reserved = torch.cuda.memory_reserved()
del x, pool
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < reserved
report("pool")

static = torch.zeros(1000, dtype=torch.int32).cuda()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    temporary = static.clone()
    result = temporary.clone()
    del temporary
second = torch.cuda.CUDAGraph()
with torch.cuda.graph(second, pool=graph.pool()):
    other = result.clone()
for value in range(5):
    noise = [torch.full((1000,), -1, dtype=torch.int32).cuda() for _ in range(20)]
    static.copy_(torch.full((1000,), value, dtype=torch.int32))
    graph.replay()
    second.replay()
    torch.cuda.synchronize()
    assert (result.cpu() == value).all() and (other.cpu() == value).all()
    del noise
report("graphs")
reserved = torch.cuda.memory_reserved()
del graph, second, result, other
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < reserved
report("no graphs")

try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print(str(error).split(" has ")[0])
print("out of memory", torch.cuda.memory_stats()["num_ooms"])

torch.cuda.memory._record_memory_history()
x = torch.empty(MIB, device="cuda")
del x
snapshot = torch.cuda.memory._snapshot()
entries = [e for e in snapshot["device_traces"][0] if not e["action"].startswith("segment")]
print([(e["action"], e["size"], bool(e["frames"])) for e in entries])
assert sum(s["allocated_size"] for s in snapshot["segments"]) == torch.cuda.memory_allocated()
torch.cuda.memory_summary()
torch.cuda.reset_peak_memory_stats()
report("end")
