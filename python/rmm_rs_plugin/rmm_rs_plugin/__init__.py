"""The pool of rmm_rs as a resource of the real RMM, for cuDF and everything else that was compiled
against it::

    import rmm, rmm_rs_plugin

    rmm_rs_plugin.install(initial_pool_size="8GiB")

or, below RMM's adaptors::

    pool = rmm_rs_plugin.PoolMemoryResource(initial_pool_size="8GiB")
    rmm.mr.set_current_device_resource(rmm.mr.StatisticsResourceAdaptor(pool))

Engines that name a class and its options take `DefaultPoolMemoryResource` and `SpecMemoryResource`.

RMM's C++ classes differ between its releases, so the package is built for one of them, and importing
it beside another raises `ImportError`.
"""

# The order matters: what RMM is has to be known before the extension module is loaded.
from rmm_rs_plugin import _check  # isort: skip

_check.refuse_other_rmm()

from rmm_rs_plugin._check import RMM_VERSION  # noqa: E402
from rmm_rs_plugin._install import install, install_deferred  # noqa: E402
from rmm_rs_plugin._plugin import (  # noqa: E402
    DefaultPoolMemoryResource,
    DeferredMemoryResource,
    PoolMemoryResource,
    PressureCallback,
    RustMemoryResource,
    SpecMemoryResource,
    WrappedMemoryResource,
    forget_stream,
    unwrap,
    wrap,
)
from rmm_rs_plugin._pressure import Pressure, spill_on_pressure  # noqa: E402

__all__ = [
    "RMM_VERSION",
    "DefaultPoolMemoryResource",
    "DeferredMemoryResource",
    "PoolMemoryResource",
    "Pressure",
    "PressureCallback",
    "RustMemoryResource",
    "SpecMemoryResource",
    "WrappedMemoryResource",
    "forget_stream",
    "install",
    "install_deferred",
    "spill_on_pressure",
    "unwrap",
    "wrap",
]
