"""Callbacks that are called as objects end: while an exception propagates, and by the garbage
collector. Each program has a process of its own, since a mistake ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]

START = """
import functools, gc, weakref
import rmm_rs
from rmm_rs import DeviceBuffer, mr

base = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())

def function(address, size, stream):
    names = [address, size]
    names.append(stream)
    base.deallocate(*names)

def raising(address, size, stream):
    base.deallocate(address, size, stream)
    raise KeyError("of the callback")

class Callable:
    def __call__(self, address, size, stream):
        function(address, size, stream)

def over(deallocate):
    return mr.CallbackMemoryResource(base.allocate, deallocate)
"""

FUNCTIONS = {
    "a function": "function",
    "a lambda": "lambda *arguments: base.deallocate(*arguments)",
    "a method": "base.deallocate",
    "a partial": "functools.partial(function)",
    "an object": "Callable()",
    "one that raises": "raising",
}

#: What has memory of `callback`, and nothing else does.
HOLDERS = {
    "a buffer": "DeviceBuffer(size=1000, mr=callback())",
    "a tensor": "DeviceBuffer(size=1000, mr=callback()).__dlpack__()",
    "a pool": "mr.PoolMemoryResource(callback(), '1MiB')",
    "a buffer of a pool": "DeviceBuffer(size=1000, mr=mr.PoolMemoryResource(callback(), '1MiB'))",
    "a reservation": "mr.PoolMemoryResource(callback(), '1MiB').reserve(1000)",
    "an arena": "DeviceBuffer(size=1000, mr=mr.ArenaMemoryResource(callback(), '16MiB'))",
    "fixed sizes": "mr.FixedSizeMemoryResource(callback(), 1 << 20, 2)",
    "bins": "mr.BinningMemoryResource(callback(), 18, 20)",
    "an adaptor": "DeviceBuffer(size=1000, mr=mr.StatisticsResourceAdaptor(callback()))",
    "a capsule": "rmm_rs._rmm._c_resource(mr.PoolMemoryResource(callback(), '1MiB'))",
}

PROPAGATES = """
import sys
unraisable = []
sys.unraisablehook = lambda found: unraisable.append(type(found.exc_value))

def callback():
    return over({function})

def program():
    return [{holder}, 1 // 0]

for _ in range(10):
    try:
        program()
    except ZeroDivisionError as raised:
        assert str(raised) and raised.__context__ is None, raised.__context__
    else:
        raise SystemExit("no exception")
gc.collect()
assert base.get_allocated_bytes() == 0, base.get_allocated_bytes()
assert set(unraisable) <= {KeyError}, unraisable
"""


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_an_exception_propagates_past_a_free(run: Run, holder: str, function: str) -> None:
    code = PROPAGATES.replace("{function}", FUNCTIONS[function]).replace("{holder}", HOLDERS[holder])
    result = run(START + code)
    assert (result.returncode, result.stderr) == (0, "")


#: A callable on which an attribute can be set.
OF_CYCLES = {
    "a function": "def made(*arguments):\n        return act(*arguments)",
    "a partial": "made = functools.partial(act)",
    "an object": "class Local:\n        def __call__(self, *arguments):\n            return act(*arguments)\n"
    "    made = Local()",
    "a method": "class Local:\n        def call(self, *arguments):\n            return self.helper(*arguments)\n"
    "    instance = Local()\n    instance.helper = lambda *arguments: act(*arguments)\n"
    "    made = instance.call",
}

#: A cycle through `made`; memory is allocated in the first ones.
CYCLES = {
    "a buffer": (
        "base.deallocate", "keep(made, DeviceBuffer(size=1000, mr=mr.CallbackMemoryResource(base.allocate, made)))",
    ),
    "an allocating function": (
        "base.allocate", "keep(made, DeviceBuffer(size=1000, mr=mr.CallbackMemoryResource(made, base.deallocate)))",
    ),
    "a pool": (
        "base.deallocate", "keep(made, mr.PoolMemoryResource(mr.CallbackMemoryResource(base.allocate, made), '1MiB'))",
    ),
    "a capsule": (
        "base.deallocate", "keep(made, rmm_rs._rmm._c_resource(mr.CallbackMemoryResource(base.allocate, made)))",
    ),
    "an unused resource": (
        "base.deallocate", "keep(made, mr.CallbackMemoryResource(base.allocate, made))",
    ),
    "an adaptor": (
        "(lambda size: False)", "keep(made, mr.FailureCallbackResourceAdaptor(base, made))",
    ),
    "a pool's callback": (
        "(lambda pressure: False)", "keep(made, pool.on_pressure(made))",
    ),
    "a callback for segments": (
        "(lambda event, segment: None)", "keep(made, pool.on_segment(made))",
    ),
}

#: Nothing has these called any more once the program has dropped them.
COLLECTED = ("an unused resource", "an adaptor", "a pool's callback", "a callback for segments")

COLLECTS = """
pool = mr.PoolMemoryResource(base, "1MiB", "1MiB")
gone = []

class Marker:
    pass

def keep(made, what):
    marker = Marker()
    gone.append(weakref.ref(marker))
    getattr(made, "__self__", made).kept = (what, marker)

def make():
    act = {act}
    {made}
    {cycle}

gc.disable()
for _ in range(30):
    make()
for _ in range(3):
    gc.collect()
    try:
        pool.allocate(2 << 20)
    except MemoryError:
        pass
left = sum(marker() is not None for marker in gone)
assert not ({is_collected} and left), left
"""


@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("kind", OF_CYCLES)
def test_no_callback_is_called_that_was_cleared(run: Run, kind: str, cycle: str) -> None:
    act, made = CYCLES[cycle]
    code = COLLECTS.replace("{act}", act).replace("{made}", OF_CYCLES[kind]).replace("{cycle}", made)
    result = run(START + code.replace("{is_collected}", str(cycle in COLLECTED)))
    assert (result.returncode, result.stderr) == (0, "")
