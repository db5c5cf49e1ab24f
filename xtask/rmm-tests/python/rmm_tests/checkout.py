"""Imports of the checkout's own test modules, while every other `rmm` is the package under test."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

TESTS = "rmm.tests"


class _Finder(MetaPathFinder):
    def __init__(self, package):
        self._package = package

    def find_spec(self, name, path=None, target=None):
        if name == TESTS:
            return PathFinder.find_spec(name, [str(self._package)], target)
        if not name.startswith(f"{TESTS}."):
            return None
        # pytest's own finder rewrites assertions. That of the alias knows no tests.
        for finder in sys.meta_path:
            if finder is self or type(finder).__module__ == "rmm_rs.as_rmm":
                continue
            if spec := finder.find_spec(name, path, target):
                return spec
        return None


def install(package):
    """Makes `rmm.tests` the tests of a checkout, given its folder `python/rmm/rmm`."""
    sys.meta_path.insert(0, _Finder(package))
