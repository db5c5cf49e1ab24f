"""Which RMM this package was built for."""

from __future__ import annotations

from rmm_rs_plugin._built_for import RMM_VERSION

__all__ = ["RMM_VERSION", "refuse_other_rmm"]


def refuse_other_rmm() -> None:
    """Looks at the RMM that is installed, before anything of its C++ classes is touched.

    Raises
    ------
    ImportError
        If it is not of the release that this package was built for, or not the real one.
    """
    import rmm

    if rmm.__name__ != "rmm":
        raise ImportError(
            f"`rmm` is {rmm.__name__} in this process, which needs no plug-in: remove `import rmm_rs.as_rmm`"
        )
    version: str = getattr(rmm, "__version__", "0.0")
    found = ".".join(str(int(part)) for part in version.split(".")[:2])
    if found != RMM_VERSION:
        raise ImportError(
            f"rmm_rs_plugin was built for RMM {RMM_VERSION}, and RMM {version} is installed: "
            f'pip install "rmm-rs-plugin-cu13=={found}.*"'
        )
