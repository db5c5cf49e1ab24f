"""Dask, Distributed and Dask-CUDA on this package, in the client and in every worker.

::

    import rmm_rs.integrations.dask      # first
    from dask_cuda import LocalCUDACluster

    cluster = LocalCUDACluster(rmm_pool_size="20GiB", protocol="tcp")

Importing this module installs the alias `rmm` here, and in the processes that this one starts.
Workers that a command line starts need `rmm_rs.integrations.processes` for the same.
"""

from __future__ import annotations

import rmm_rs.as_rmm  # noqa: F401
from rmm_rs.integrations import processes

processes.reach()
