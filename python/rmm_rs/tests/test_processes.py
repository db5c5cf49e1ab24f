"""The end of a process, forks, and second interpreters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]

HELD = {
    "globals": "kept = [DeviceBuffer(size=100), DeviceBuffer(size=100, stream=Stream())]",
    "cycle": """
class Derived(DeviceBuffer):
    pass
kept = Derived(size=100)
kept.itself = kept
""",
    "builtins": "import builtins; builtins.kept = DeviceBuffer(size=100, stream=Stream())",
    "pool": """
pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
mr.set_current_device_resource(pool)
kept = DeviceBuffer(size=100)
""",
    "elastic": """
import rmm_rs
kept = rmm_rs.ElasticBuffer(16 << 20)
kept.commit(0, 4 << 20)
kept.record_stream(Stream())
""",
    "shared": """
import rmm_rs
pages = mr.VirtualMemoryResource(export="posix_fd")
exported = DeviceBuffer(size=100, mr=pages)
pieces = rmm_rs.export(exported)
kept = [rmm_rs.import_memory(rmm_rs.export(exported), writable=True) for _ in range(2)]
""",
    "callback": """
base = mr.CudaMemoryResource()
resource = mr.CallbackMemoryResource(
    lambda size, stream: base.allocate(size, stream),
    lambda address, size, stream: base.deallocate(address, size, stream),
)
mr.set_current_device_resource(mr.PoolMemoryResource(resource, "1MiB"))
kept = DeviceBuffer(size=100)
""",
    "daemon": """
import threading
ready = threading.Event()
def work():
    stream = Stream()
    while True:
        kept = DeviceBuffer(size=100, stream=stream)
        ready.set()
threading.Thread(target=work, daemon=True).start()
ready.wait()
""",
    "thread local": """
import threading
local = threading.local()
local.kept = DeviceBuffer(size=100, mr=mr.StatisticsResourceAdaptor(mr.CudaMemoryResource()))
""",
}

ENDS = {
    "return": ("", 0),
    "sys.exit": ("import sys; sys.exit(3)", 3),
    "exception": ("raise SystemExit(4)", 4),
    "os._exit": ("import os; os._exit(5)", 5),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("held", HELD)
def test_a_process_ends_quietly(run: Run, held: str, end: str) -> None:
    begin = "from rmm_rs import DeviceBuffer, mr\nfrom rmm_rs.pylibrmm.stream import Stream\n"
    code, status = ENDS[end]
    result = run(begin + HELD[held] + "\n" + code)
    assert (result.returncode, result.stderr) == (status, "")


def test_logs_are_complete_at_the_end(run: Run, tmp_path: Any) -> None:
    code = f"""
import rmm_rs
rmm_rs.enable_logging({str(tmp_path / "log.csv")!r})
kept = rmm_rs.DeviceBuffer(size=100)
import os, atexit
"""
    result = run(code)
    assert (result.returncode, result.stderr) == (0, "")
    assert ",allocate," in (tmp_path / "log.dev0.csv").read_text()


FORK = """
import gc, os, sys, warnings, rmm_rs
# A driver has threads, of which Python warns.
warnings.simplefilter("ignore", DeprecationWarning)
from rmm_rs import mr
from rmm_rs.pylibrmm.stream import Stream
pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
mr.set_current_device_resource(pool)
stream = Stream()
kept = [rmm_rs.DeviceBuffer(size=1000, stream=stream) for _ in range(10)]
elastic = rmm_rs.ElasticBuffer(16 << 20)
elastic.commit(0, 4 << 20)
exported = rmm_rs.DeviceBuffer(size=100, mr=mr.VirtualMemoryResource(export="posix_fd"))
pieces = rmm_rs.export(exported)
imported = rmm_rs.import_memory(rmm_rs.export(exported))
child = os.fork()
if child == 0:
    for call in (
        lambda: rmm_rs.DeviceBuffer(size=10),
        lambda: pool.allocate(10),
        lambda: kept[0].copy(),
        lambda: bytes(kept[0]),
        lambda: Stream(),
        lambda: rmm_rs.ElasticBuffer(16 << 20),
        lambda: elastic.commit(4 << 20, 4 << 20),
        lambda: elastic.decommit(0, 4 << 20, blocking=True),
        lambda: rmm_rs.export(exported),
        lambda: rmm_rs.import_memory(pieces),
        lambda: imported.grant_access(0),
        lambda: stream.synchronize(),
        lambda: mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB"),
        lambda: mr.set_current_device_resource(pool),
        lambda: mr.available_device_memory(),
        lambda: rmm_rs._cuda.gpu.getDevice(),
    ):
        try:
            call()
        except RuntimeError as error:
            if "start processes with spawn" not in str(error):
                os._exit(1)
        else:
            os._exit(2)
    kept.clear()
    del pool, stream, elastic, exported, pieces, imported
    gc.collect()
    sys.exit(7)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 7, status
assert len(bytes(kept[0])) == 1000
assert elastic.decommit(0, 4 << 20) == 4 << 20
assert rmm_rs.import_memory(pieces).size == imported.size == 100
kept.clear()
assert pool.statistics()["live_bytes"] == 0
"""


def test_a_fork_leaves_the_parent_alone(run: Run) -> None:
    result = run(FORK)
    assert (result.returncode, result.stderr) == (0, "")


#: Every public attribute of these objects is read in children of its own, and called if it can be, while threads of
#: the parent are inside the library and hold its locks.
FORKED_CALLS = """
import multiprocessing, os, signal, sys, tempfile, threading, warnings
import rmm_rs
from rmm_rs import mr
from rmm_rs.pylibrmm.cuda_stream_pool import CudaStreamPool
from rmm_rs.pylibrmm.stream import Stream
warnings.simplefilter("ignore", DeprecationWarning)

cuda = mr.CudaMemoryResource()
pool = mr.PoolMemoryResource(cuda, "64MiB")
log = mr.LoggingResourceAdaptor(cuda, os.path.join(tempfile.mkdtemp(), "log.csv"))
# A log that no thread uses: its lines are in the parent's buffer.
buffered = mr.LoggingResourceAdaptor(cuda, os.path.join(tempfile.mkdtemp(), "buffered.csv"))
for size in range(1, 11):
    buffered.deallocate(buffered.allocate(size), size)
resources = [
    cuda, mr.CudaAsyncMemoryResource(), mr.ManagedMemoryResource(), mr.PinnedHostMemoryResource(), pool, log,
    mr.ArenaMemoryResource(cuda), mr.FixedSizeMemoryResource(cuda), mr.BinningMemoryResource(cuda, 10, 12),
    pool.reserve("1MiB"), mr.LimitingResourceAdaptor(cuda, 1 << 30), mr.StatisticsResourceAdaptor(cuda),
    mr.TrackingResourceAdaptor(pool), mr.PrefetchResourceAdaptor(cuda), mr.TaggedResourceAdaptor(cuda),
    mr.AlignedResourceAdaptor(cuda), mr.ThreadSafeResourceAdaptor(cuda), mr.FallbackMemoryResource(cuda, pool),
    mr.FailureCallbackResourceAdaptor(cuda, lambda size: False),
    mr.CallbackMemoryResource(
        lambda size, stream: cuda.allocate(size, stream),
        lambda address, size, stream: cuda.deallocate(address, size, stream),
    ),
]
stream = Stream()
elastic = rmm_rs.ElasticBuffer(16 << 20)
elastic.commit(0, 4 << 20)
objects = [
    elastic,
    *resources, buffered, stream, CudaStreamPool(2), rmm_rs.DeviceBuffer(size=1000, stream=stream),
    pool.on_pressure(lambda pressure: False), pool.on_segment(lambda event, segment: None), rmm_rs.tag("parent"), rmm_rs, mr, rmm_rs.statistics,
]
kept = [resource.allocate(1000) for resource in resources for _ in range(100)]
ends = threading.Event()

def busy():
    own = Stream()
    while not ends.is_set():
        for resource in resources:
            for size in (1000, 3 << 20):
                try:
                    resource.deallocate(resource.allocate(size, own), size, own)
                except MemoryError:
                    pass
            resource.describe()
            resource.trim()
        try:
            elastic.commit(8 << 20, 2 << 20)
            elastic.decommit(8 << 20, 2 << 20, blocking=True)
        except (ValueError, IndexError):
            pass  # the other thread did
        pool.statistics()
        log.flush()

threads = [threading.Thread(target=busy, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()

def in_child(act):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 0
        try:
            act()
        except Exception:
            pass
        except BaseException as error:
            status = 3  # a panic
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def use(thing, name):
    value = getattr(thing, name)
    if callable(value) and not isinstance(value, type):
        for arguments in ((), (1000,), (1000, 1000), (kept[0], 1000), (pool,), (0, pool)):
            try:
                value(*arguments)
            except Exception:
                pass

wrong, calls = [], 0
for thing in objects:
    names = [name for name in dir(thing) if not name.startswith("_")]
    uses = [(name, lambda name=name: use(thing, name)) for name in names]
    uses.append(("repr", lambda: (repr(thing), str(thing))))
    for name, act in uses:
        calls += 1
        for _ in range(2):
            status = in_child(act)
            if status != 0:
                wrong.append(f"{type(thing).__name__} {getattr(thing, '__name__', '')}.{name}: {status}")
                break

# The end of a child, as of multiprocessing.
child = os.fork()
if child == 0:
    signal.alarm(60)
    sys.exit(7)
if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7:
    wrong.append("the end of a child")
worker = multiprocessing.get_context("fork").Process(target=rmm_rs.is_initialized)
worker.start()
worker.join(60)
if worker.exitcode is None:
    wrong.append("a worker of multiprocessing waits")
    worker.kill()

ends.set()
for thread in threads:
    thread.join()
buffered.flush()
lines = open(buffered.get_file_name()).read().splitlines()
if len(lines) != 1 + 20:
    wrong.append(f"{len(lines)} lines of the log")
print(calls, "calls")
assert calls > 200 and not wrong, wrong
os._exit(0)
"""


def test_no_call_waits_in_the_child_of_a_fork(run: Run) -> None:
    result = run(FORKED_CALLS, timeout=600)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_importing_before_a_fork_is_fine(run: Run) -> None:
    result = run("""
import os, rmm_rs
child = os.fork()
size = rmm_rs.DeviceBuffer(size=10).size
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0, status
assert size == 10
""")
    assert (result.returncode, result.stderr) == (0, "")


# The module of interpreters, and what one of them runs to be refused.
INTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
try:
    import rmm_rs
except ImportError:
    pass
else:
    raise SystemError("it was imported")
'''
"""


def test_a_second_interpreter_is_refused(run: Run) -> None:
    result = run("import rmm_rs\n" + INTERPRETERS + """
# One that shares the lock, as a web server's does: it takes modules of every kind.
try:
    other = interpreters.create("legacy")
except TypeError:
    other = interpreters.create(isolated=False)
failed = interpreters.run_string(other, code)
assert failed is None, failed
interpreters.destroy(other)
""")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_main_interpreter_imports_after_others_were_refused(run: Run) -> None:
    result = run(INTERPRETERS + """
def create(kinds):
    for arguments, keywords in kinds:
        try:
            return interpreters.create(*arguments, **keywords)
        except TypeError:
            pass
# One that shares the lock, and one of the default kind, which has its own from Python 3.12 on.
kinds = [(("legacy",), {}), ((), {"isolated": False})], [((), {})]
others = [create(kind) for kind in kinds]
for other in others:
    failed = interpreters.run_string(other, code)
    assert failed is None, failed
import rmm_rs
buffer = rmm_rs.DeviceBuffer.to_device(b"abc")
assert bytes(buffer) == b"abc"
tracking = rmm_rs.mr.TrackingResourceAdaptor(rmm_rs.mr.CudaMemoryResource(), capture_stacks=True)
kept = rmm_rs.DeviceBuffer(size=10, mr=tracking)
assert "<string>" in tracking.get_outstanding_allocations_str()
# And again, while the main one has it, and after they have ended.
for other in others:
    failed = interpreters.run_string(other, code)
    assert failed is None, failed
    interpreters.destroy(other)
assert bytes(buffer.copy()) == b"abc"
""")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_import_takes_less_than_a_tenth_of_a_second(run: Run) -> None:
    code = """
import time
before = time.process_time()
import rmm_rs
import sys
assert "numpy" not in sys.modules
print(time.process_time() - before)
"""
    # The processor's time, the least of some: a loaded machine keeps the bound too.
    assert min(float(run(code).stdout) for _ in range(5)) < 0.1
