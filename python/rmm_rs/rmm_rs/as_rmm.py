"""Makes `import rmm` mean this package, in this process, from now on.

::

    import rmm_rs.as_rmm     # first
    import rmm               # rmm_rs

or ``python -m rmm_rs program.py``, or ``pytest -p rmm_rs.as_rmm``. Nothing is installed under the name
`rmm`, so a program without this line gets the real RMM, if that is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from rmm_rs.integrations import distributed

#: Packages that were compiled against RMM: they need its C++ classes.
_COMPILED_AGAINST_RMM = frozenset(
    {"cudf", "cugraph", "cuml", "pylibcudf", "pylibcugraph", "pylibraft"}
)
#: The first version of ucxx without them.
_UCXX_WITHOUT_RMM = (0, 52)


def _needs_rmm(package: str) -> bool:
    if package != "ucxx":
        return package in _COMPILED_AGAINST_RMM
    for distribution in ("ucxx-cu13", "ucxx-cu12", "ucxx"):
        with contextlib.suppress(PackageNotFoundError, ValueError):
            major, minor = version(distribution).split(".")[:2]
            return (int(major), int(minor)) < _UCXX_WITHOUT_RMM
    return False


def _load_libraries_of_ucxx() -> None:
    """Does what ucxx leaves out where the package `librmm` is not installed."""
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("libucx").load_library()


def _own_name(name: str) -> str:
    """The module of this package for one of RMM's."""
    return "rmm_rs" + name.removeprefix("rmm")


class _Alias(Loader):
    """Loads a module of RMM as the module of this package: the same object."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_own_name(spec.name))
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has given it the alias's spec meanwhile.
        name = module.__spec__.name if module.__spec__ else ""
        module.__spec__ = self._specs.pop(name, module.__spec__)
        if module.__spec__ is not None:
            module.__loader__ = module.__spec__.loader


class _Finder(MetaPathFinder):
    def __init__(self) -> None:
        self._loader = _Alias()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        if _needs_rmm(package):
            raise ImportError(
                f"{package} was compiled against RMM and can not use rmm_rs in its place. Use the "
                "real RMM, and rmm_rs's pool by the package rmm-rs-plugin-cu13",
                name=fullname,
            )
        if fullname == "ucxx":
            _load_libraries_of_ucxx()
        if package != "rmm":
            return None
        own = _own_name(fullname)
        try:
            found = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name == own:
                raise ModuleNotFoundError(
                    f"No module named {fullname!r}: rmm_rs stands for rmm here, and has none",
                    name=fullname,
                ) from None
            raise
        is_package = hasattr(found, "__path__")
        return ModuleSpec(fullname, self._loader, is_package=is_package)


def install() -> None:
    """Installs the alias. Without effect from the second call on.

    Raises
    ------
    ImportError
        If the real RMM is imported already; nothing is changed then.
    """
    import rmm_rs

    known = sys.modules.get("rmm")
    if known is rmm_rs:
        return
    if known is not None:
        path = getattr(known, "__file__", None) or "an unknown file"
        raise ImportError(
            f"rmm is imported already, from {path}: import rmm_rs.as_rmm before it",
            name="rmm",
            path=path,
        )
    rmm_rs.__version__ = rmm_rs._version.ALIAS_VERSION
    sys.meta_path.insert(0, _Finder())
    importlib.import_module("rmm")
    for name in [name for name in sys.modules if name.startswith("rmm_rs.")]:
        own = sys.modules[name]
        # Its own names are not RMM's: the extension module, the alias, parts for other libraries.
        if name not in ("rmm_rs._rmm", "rmm_rs.as_rmm") and ".integrations" not in name:
            sys.modules["rmm" + name.removeprefix("rmm_rs")] = own
    distributed.watch()


install()
