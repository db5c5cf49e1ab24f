"""Versions: of this package, and of the RMM whose interface it has."""

from rmm_rs import _rmm

#: The version of this package.
__version__: str = _rmm.__version__
#: The version of RMM whose Python interface this is.
RMM_VERSION = "26.10.0"
#: What `rmm.__version__` is under the alias.
ALIAS_VERSION = f"{RMM_VERSION}+rmm.rs.{__version__}"
__git_commit__ = ""
