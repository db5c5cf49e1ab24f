"""This package in the workers of Ray.

::

    import ray
    import rmm_rs.integrations.ray

    ray.init(runtime_env=rmm_rs.integrations.ray.runtime_env("pool(max=8GiB)"))

Ray tells a worker its GPU after the worker has begun, and before the class of an actor is made, by
``CUDA_VISIBLE_DEVICES``. So a worker makes its pool at the first request, and asks no driver before.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, Literal

from rmm_rs import _rmm

__all__ = ["runtime_env", "setup"]

#: What the worker's pool is made of, also for PyTorch.
_SPEC = "RMM_RESOURCE"
#: What stands for RMM in a worker.
_RMM = "RMM_RS_RAY"

_WAYS = ("alias", "plug-in")


def runtime_env(
    spec: str = "pool",
    *,
    rmm: Literal["alias", "plug-in"] = "alias",
    env_vars: Mapping[str, str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """A runtime environment, for ``ray.init`` or the options of an actor, whose workers take memory
    from a pool of this package.

    Parameters
    ----------
    spec : str
        The resource of each device that a worker sees, such as ``"pool(max=8GiB)"``.
    rmm : str
        What ``import rmm`` is in the workers: "alias" for this package, "plug-in" for the real RMM
        over a pool of ours, which needs rmm-rs-plugin-cu13 there.
    env_vars : mapping, optional
        Further variables of the workers.
    **options
        Further parts of the environment, such as ``pip``.

    Raises
    ------
    ValueError
        If the specification or `rmm` is none, or what this sets is given too.

    Examples
    --------
    >>> from rmm_rs.integrations.ray import runtime_env
    >>> runtime_env("pool(max=8GiB)")["worker_process_setup_hook"]
    'rmm_rs.integrations.ray.setup'
    """
    if rmm not in _WAYS:
        raise ValueError(f"rmm: {rmm!r} is none of 'alias' and 'plug-in'")
    _rmm._check_spec(spec)
    for name in (_SPEC, _RMM):
        if name in (env_vars or {}):
            raise ValueError(f"env_vars: {name} is set by the arguments")
    if "worker_process_setup_hook" in options:
        raise ValueError(
            "worker_process_setup_hook: call rmm_rs.integrations.ray.setup in your function, and "
            "pass that beside the env_vars of this one"
        )
    return {
        **options,
        "env_vars": {**(env_vars or {}), _SPEC: spec, _RMM: rmm},
        # By its name: a worker without this package says which one it lacks.
        "worker_process_setup_hook": f"{__name__}.setup",
    }


def setup() -> None:
    """What Ray calls as a worker begins: makes ``import rmm`` what `runtime_env` says. The pool is
    made at the first request.

    Raises
    ------
    ImportError
        If the worker lacks the plug-in, or has imported the real RMM before the alias.
    ValueError
        If a variable has a wrong value.
    """
    way = os.environ.get(_RMM, "alias")
    if way not in _WAYS:
        raise ValueError(f"{_RMM}={way}: 'alias' and 'plug-in' are known")
    spec = os.environ.get(_SPEC) or "pool"
    try:
        _rmm._check_spec(spec)
    except ValueError as error:
        raise ValueError(f"{_SPEC}: {error}") from None
    if way == "alias":
        # Where nothing was set: the first request reads it.
        os.environ[_SPEC] = spec
        importlib.import_module("rmm_rs.as_rmm")
        return
    try:
        plugin = importlib.import_module("rmm_rs_plugin")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{_RMM}=plug-in needs the packages rmm-rs-plugin-cu13 and rmm-cu13 in this worker, "
            f"which has no {error.name}: install them, or choose rmm='alias'"
        ) from error
    plugin.install_deferred(spec)
