"""The pytest plug-in of `cargo xtask rmm-tests --python`. It is loaded after ``-p rmm_rs.as_rmm``."""

from pathlib import Path

import pytest

from rmm_tests import checkout, software_runtime


def pytest_addoption(parser):
    group = parser.getgroup("rmm-tests")
    group.addoption("--rmm-package", type=Path, help="the folder python/rmm/rmm of a checkout")
    group.addoption("--rmm-list", type=Path, help="where to write what the tests are called")
    group.addoption("--rmm-software", action="store_true", help="the driver is the software one")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Before anything of the checkout is imported."""
    options = early_config.known_args_namespace
    if options.rmm_package is not None:
        checkout.install(options.rmm_package)
    if options.rmm_software:
        software_runtime.install()


def pytest_collection_finish(session):
    """Before the first test begins: where one ends the process, each runs in one of its own."""
    file = session.config.option.rmm_list
    if file is not None:
        root = session.config.rootpath
        names = [f"{root / item.nodeid}\n" for item in session.items]
        file.write_text("".join(names), encoding="utf-8")
