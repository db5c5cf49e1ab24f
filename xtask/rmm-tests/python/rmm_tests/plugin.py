"""The pytest plug-in of `cargo xtask rmm-tests --python`.

It is loaded after ``-p rmm_rs.as_rmm``. Each result is written to a file at once, one JSON object a
line, so that a test that ends the process is known, and the rest can run in another::

    {"begin": "test_x[1]"}
    {"case": "test_x[1]", "outcome": "passed", "text": "", "seconds": 0.1}
    {"end": 0}
"""

import json
from pathlib import Path

import pytest

from rmm_tests import checkout, software_runtime

#: The name of what stands for a whole file: one that cannot be imported, or skips all of it.
WHOLE_FILE = "(file)"


def pytest_addoption(parser):
    group = parser.getgroup("rmm-tests")
    group.addoption("--rmm-package", type=Path, help="the folder python/rmm/rmm of a checkout")
    group.addoption("--rmm-results", type=Path, help="where to write the results")
    group.addoption("--rmm-done", type=Path, help="names of tests that are not run, as JSON")
    group.addoption("--rmm-software", action="store_true", help="the driver is the software one")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Before anything of the checkout is imported."""
    options = early_config.known_args_namespace
    if options.rmm_package is not None:
        checkout.install(options.rmm_package)
    if options.rmm_software:
        software_runtime.install()


def pytest_configure(config):
    # Where the checkout's options ask for several processes, the first has all results.
    is_worker = hasattr(config, "workerinput")
    if config.option.rmm_results is not None and not is_worker:
        config.pluginmanager.register(_Results(config.option.rmm_results))


def pytest_collection_modifyitems(config, items):
    if config.option.rmm_done is None:
        return
    done = set(json.loads(config.option.rmm_done.read_text(encoding="utf-8")))
    items[:] = [item for item in items if _name(item.nodeid) not in done]


def _name(node):
    """The name of a test within its file."""
    return node.partition("::")[2] or WHOLE_FILE


class _Results:
    """Writes the results."""

    def __init__(self, path):
        self._file = path.open("a", encoding="utf-8")
        self._phases = {}

    def _write(self, **line):
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def pytest_runtest_logstart(self, nodeid):
        self._write(begin=_name(nodeid))

    def pytest_runtest_logreport(self, report):
        # Several tests may be under way, if there are several processes.
        self._phases.setdefault(report.nodeid, []).append(report)

    def pytest_runtest_logfinish(self, nodeid):
        phases = self._phases.pop(nodeid, [])
        outcome, text = _verdict(phases)
        seconds = sum(report.duration for report in phases)
        self._write(case=_name(nodeid), outcome=outcome, text=text, seconds=seconds)

    def pytest_collectreport(self, report):
        if report.failed:
            text = str(report.longrepr)
            last = text.strip().rpartition("\n")[2].removeprefix("E").strip()
            text = f"{last}\n{text}"
            self._write(case=_name(report.nodeid), outcome="failed", text=text, seconds=0)
        elif report.skipped:
            text = _skip_reason(report)
            self._write(case=_name(report.nodeid), outcome="skipped", text=text, seconds=0)

    def pytest_sessionfinish(self, exitstatus):
        self._write(end=int(exitstatus))


def _verdict(phases):
    """The outcome of a test, and why it did not pass."""
    if not phases:
        return "failed", "it has no result"
    failed = [report for report in phases if report.failed]
    if failed:
        return "failed", "\n\n".join(map(_failure, failed))
    skipped = [report for report in phases if report.skipped]
    if skipped:
        return "skipped", _skip_reason(skipped[0])
    return "passed", ""


def _failure(report):
    """What went wrong, in the first line, and all that is known of it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message.partition("\n")[0] if crash is not None else f"{report.when} failed"
    sections = [f"{title}:\n{content}" for title, content in report.sections]
    return "\n".join([message, report.longreprtext, *sections])


def _skip_reason(report):
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)
