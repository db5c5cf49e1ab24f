"""A browser without a network, and pages of planted programs in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[3]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="session")
def rmm() -> Callable[..., str]:
    """Runs the program, and returns what it prints."""
    program = os.environ.get("RMM_PROGRAM", str(ROOT / "target/debug/rmm"))

    def run(*args: str | Path) -> str:
        done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's sandbox needs rights that containers lack; the pages are ours.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file. No page may write to the console, fail, or ask a network for anything."""
    said: list[str] = []
    pages: list[Page] = []

    def show(path: Path, width: int = 1400, scheme: str = "light", **options: Any) -> Page:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, **options)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: request.url == path.as_uri() or said.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn]", state="attached", timeout=120_000)
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
    assert said == []


@pytest.fixture
def report(rmm: Callable[..., str], tmp_path: Path) -> Callable[..., Path]:
    """The page of some logs."""

    def report(*logs: Path) -> Path:
        page = tmp_path / "page.html"
        rmm("report", *logs, "--html", page)
        return page

    return report
