"""Sizes and times of pages of many events. Times here are bounds for busy machines; `-s` prints them."""

from __future__ import annotations

import os
import time

import pytest

import programs

CASES = [
    # Events, milliseconds until drawn on two idle cores.
    (50_000, 1000),
    (500_000, 1000),
    pytest.param(5_000_000, 5000, marks=pytest.mark.skipif("RMM_PAGE_LARGE" not in os.environ, reason="set RMM_PAGE_LARGE")),
]
#: How much slower a busy machine may be before a test fails.
SLACK = 6

MOVES = """async () => {
    const slider = document.getElementById('cursor');
    const times = [];
    for (let i = 0; i < 60; i += 1) {
        const begun = performance.now();
        slider.value = String(Math.round(Number(slider.max) * ((i * 37) % 60) / 60));
        slider.dispatchEvent(new Event('input'));
        document.body.offsetHeight;
        times.push(performance.now() - begun);
        await new Promise((done) => requestAnimationFrame(done));
    }
    return times.sort((a, b) => a - b);
}"""
ZOOMS = """async () => {
    const slider = document.getElementById('cursor');
    const times = [];
    for (const key of ['+', '+', '+', '-', '-', '0']) {
        const begun = performance.now();
        slider.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        times.push(performance.now() - begun);
        await new Promise((done) => requestAnimationFrame(done));
    }
    return times.sort((a, b) => a - b);
}"""


@pytest.mark.parametrize(("events", "drawn"), CASES)
def test_pages_open_fast_and_stay_small(tmp_path, report, show, events, drawn) -> None:
    log = programs.at_random(tmp_path / "random.csv", events)
    begun = time.monotonic()
    path = report(log)
    made = time.monotonic() - begun
    size = path.stat().st_size / events
    page = show(path)
    took = int(page.evaluate("document.documentElement.dataset.drawn"))
    moves = page.evaluate(MOVES)
    zooms = page.evaluate(ZOOMS)
    print(
        f"\n{events:,} events: {size:.2f} bytes an event, made in {made:.1f} s, drawn in {took} ms; "
        f"cursor {moves[30]:.1f} ms, at most {moves[-1]:.1f} ms; zoom {zooms[3]:.0f} ms, at most {zooms[-1]:.0f} ms"
    )
    assert size - 150_000 / events <= 5
    assert took <= drawn * SLACK
    assert moves[30] <= 16 * SLACK
