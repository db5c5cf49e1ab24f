"""The pictures: mouse, keys, search, and what the moment says."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

import programs
from programs import MIB, Program, aligned

LEFT, RIGHT, HEIGHT = 76, 14, 420


def live_at(program: Program, event: int) -> list[programs.Block]:
    return [block for block in program.blocks if block.start <= event and (block.end is None or event < block.end)]


def place(page: Page) -> int:
    return int(page.locator("#cursor").input_value())


def ends(page: Page) -> tuple[int, int]:
    slider = page.locator("#cursor")
    return int(slider.get_attribute("min") or 0), int(slider.get_attribute("max") or 0)


def cell(page: Page, heading: str) -> str:
    row = page.locator(".moment tr", has_text=heading).first
    return row.locator("td").first.inner_text()


def point(page: Page, part: float, up: float) -> tuple[float, float]:
    """A point of the map: parts of its width and height."""
    home = page.locator(".picture.map").first
    home.scroll_into_view_if_needed()
    box = home.bounding_box()
    assert box is not None
    return box["x"] + LEFT + part * (box["width"] - LEFT - RIGHT), box["y"] + (1 - up) * HEIGHT


@pytest.fixture
def leak(tmp_path, report, show) -> tuple[Program, Page]:
    program = programs.leak_freed_at_exit(tmp_path / "leak.csv")
    return program, show(report(program.path))


def test_the_cursor_is_first_at_the_peak(leak) -> None:
    program, page = leak
    assert place(page) == program.peak_event
    assert page.locator("#moment-place").inner_text().endswith("the peak")


def test_keys_alone_move_the_cursor_and_zoom(leak) -> None:
    program, page = leak
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "cursor":
            break
    assert page.evaluate("document.activeElement.id") == "cursor"
    page.keyboard.press("Home")
    assert place(page) == 0
    page.keyboard.press("End")
    assert place(page) == program.events
    page.keyboard.press(",")
    assert place(page) == program.events - 1
    page.keyboard.press(".")
    page.keyboard.press("p")
    assert place(page) == program.peak_event
    for _ in range(3):
        page.keyboard.press("+")
    low, high = ends(page)
    assert (high - low) == pytest.approx(program.events / 8, abs=2) and low <= program.peak_event <= high
    page.keyboard.press("Shift+ArrowLeft")
    assert place(page) == program.peak_event - round((high - low + 1) / 20)
    page.keyboard.press("-")
    page.keyboard.press("0")
    assert ends(page) == (0, program.events)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.93])
def test_the_moment_is_what_the_program_counted(leak, part) -> None:
    program, page = leak
    page.mouse.click(*point(page, part, 0.99))
    event = place(page)
    assert event == pytest.approx(part * (program.events + 1), abs=2)
    live = live_at(program, event)
    assert cell(page, "live").startswith(f"{sum(block.size for block in live) / MIB:,.1f} MiB")
    assert f"{len(live):,} block" in page.locator(".moment tr", has_text="live").first.inner_text()
    assert f"{sum(aligned(b.size) - b.size for b in live) / 1024:,.1f} KiB" == cell(page, "rounding") or not live
    page.wait_for_timeout(100)
    who = page.locator("table.who tbody tr").first.locator("td").first.inner_text()
    assert who == f"{sum(aligned(block.size) for block in live) / MIB:,.1f} MiB"


def test_holes_are_those_of_the_program(tmp_path, report, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    page = show(report(program.path))
    assert cell(page, "holes") == "64.0 MiB"
    holes = page.locator(".moment table").nth(3).locator("tr")
    assert holes.count() == 5 and holes.first.inner_text().startswith("1.0 MiB")


def test_hovering_shows_the_block(tmp_path, report, show) -> None:
    program = Program(tmp_path / "two.csv")
    low = program.allocate(3 * MIB, "lower", "low.py:1 f < main.py:2 g", stream=0x21)
    high = program.allocate(5 * MIB, "upper", "high.py:1 f", stream=0x22)
    for block in (low, high):
        program.free(block)
    page = show(report(program.written()))
    tip = page.locator(".picture.map .tip")
    # Positions 2 of 0 to 5; the two blocks fill 8 MiB.
    page.mouse.move(*point(page, 2.5 / 5, 0.2))
    assert "3,145,728 bytes at 0x7f0000000000" in tip.inner_text()
    assert "tag lower" in tip.inner_text() and "\u2190 main.py:2 g" in tip.inner_text()
    assert "allocated at event 1, freed at event 3" in tip.inner_text() and "stream 0x21" in tip.inner_text()
    page.mouse.move(*point(page, 2.5 / 5, 0.7))
    assert "5.0 MiB" in tip.inner_text() and "tag upper" in tip.inner_text()
    page.mouse.move(*point(page, 0.5 / 5, 0.7))
    assert tip.is_hidden()


def test_hovering_over_bytes_shows_them(leak) -> None:
    program, page = leak
    box = page.locator(".picture.bytes").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + LEFT + 0.5 * (box["width"] - LEFT - RIGHT), box["y"] + 80)
    tip = page.locator(".picture.bytes .tip").inner_text()
    event = int(re.search(r"event ([\d,]+)", tip)[1].replace(",", ""))
    live = sum(aligned(block.size) for block in live_at(program, event))
    assert event == pytest.approx(program.events / 2, abs=4) and f"{live / MIB:,.1f} MiB live" in tip


def test_dragging_zooms_and_a_double_click_shows_all(leak) -> None:
    program, page = leak
    page.mouse.move(*point(page, 0.25, 0.5))
    page.mouse.down()
    page.mouse.move(*point(page, 0.4, 0.5))
    page.mouse.move(*point(page, 0.5, 0.5))
    page.mouse.up()
    low, high = ends(page)
    assert low == pytest.approx(program.events * 0.25, abs=3) and high == pytest.approx(program.events * 0.5, abs=3)
    page.mouse.dblclick(*point(page, 0.5, 0.5))
    assert ends(page) == (0, program.events)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    low, high = ends(page)
    assert high - low < program.events


def test_colours_and_the_axis_change_the_map(leak) -> None:
    program, page = leak
    pixels = "document.querySelector('.picture.map canvas').toDataURL().length + document.querySelector('.picture.map canvas').toDataURL().slice(2000, 2400)"
    seen = {page.evaluate(pixels)}
    for colouring in ("site", "size", "age", "freed"):
        page.locator("#colouring").select_option(colouring)
        seen.add(page.evaluate(pixels))
    assert len(seen) >= 4
    page.locator("#axis").select_option("time")
    page.mouse.click(*point(page, 0.5, 0.5))
    # An event each millisecond: by time it is the same place.
    assert place(page) == pytest.approx(program.events / 2, rel=0.01)


def test_search_finds_tags_sites_and_sizes(leak) -> None:
    program, page = leak
    for text, count in (("cache", 200), ("load", 200), ("64MiB", 1), ("0x7f0000000000", 1), ("no such thing", 0)):
        page.locator("#find").fill(text)
        expected = f"{count} block" if count else "None found."
        assert page.locator(".said").inner_text().startswith(expected), text
    page.locator("#find").fill("64MiB")
    page.locator(".finder button.link").first.click()
    assert place(page) == 1


def test_who_unfolds_and_names_what_grows(leak) -> None:
    program, page = leak
    row = page.locator("table.who tbody tr", has_text="cache").first
    assert row.locator("td").last.inner_text().startswith("+")
    steps = page.locator("table.who tbody tr", has_text="steps").first
    assert steps.locator("td").last.inner_text() == "-"
    row.locator("button").press("Enter")
    inner = page.locator("table.who tbody tr", has_text="a.py:1 load").first
    assert inner.locator("td").first.inner_text() == row.locator("td").first.inner_text()
    inner.locator("button").press("Enter")
    assert page.locator("table.who tbody tr", has_text="main.py:9 run").count() == 1


def test_places_in_answers_move_the_cursor(leak) -> None:
    program, page = leak
    card = page.locator(".card", has_text="What was the peak")
    card.locator("summary").press("Enter")
    button = card.locator("button.link").first
    assert button.inner_text() == "one block"
    page.locator("#cursor").press("End")
    button.press("Enter")
    assert place(page) == 1


def test_two_resources_are_side_by_side(tmp_path, rmm, show) -> None:
    program = programs.leak_freed_at_exit(tmp_path / "leak.csv", steps=50)
    path = tmp_path / "page.html"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", "pool,pool-cuda", "--html", path)
    page = show(path)
    assert page.locator(".legend").first.inner_text().count("held by") == 2
    page.locator("#two-select").select_option("1")
    rows = page.locator(".two tbody tr")
    first = {row.locator("th").inner_text(): [cell.inner_text() for cell in row.locator("td").all()] for row in rows.all()}
    assert first["events"] == [f"{program.events:,}"] * 2 + ["0"]
    assert first["live at the peak"][0] == first["live at the peak"][1] == f"{program.peak / MIB:.1f} MiB"
    assert page.locator(".picture.map").count() == 2
    page.locator("#view").select_option("1")
    assert place(page) == program.peak_event


def test_memory_that_is_not_held_looks_different(tmp_path, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    path = tmp_path / "page.html"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", "pool-cuda", "--html", path)
    page = show(path)
    colours = page.evaluate("""() => {
        const canvas = document.querySelector('.picture.map canvas');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = {};
        for (let i = 0; i < data.length; i += 4) {
            const key = [data[i], data[i + 1], data[i + 2]].map((c) => c.toString(16).padStart(2, '0')).join('');
            seen[key] = (seen[key] ?? 0) + 1;
        }
        const style = getComputedStyle(document.documentElement);
        return ['held', 'void', 'hatch'].map((name) => seen[style.getPropertyValue('--' + name).trim().slice(1)] ?? 0);
    }""")
    assert all(count > 500 for count in colours), colours


def test_what_lasts_one_event_is_hit_beside_it(tmp_path, report, show) -> None:
    program = programs.spike(tmp_path / "spike.csv")
    page = show(report(program.path))
    assert program.events > 2000
    part = (program.peak_event + 0.5) / (program.events + 1)
    x, y = point(page, part, 0.9)
    for away in (-4, 4):
        page.mouse.move(x + away, y)
        assert "1,073,741,824 bytes" in page.locator(".picture.map .tip").inner_text()
        page.locator("#cursor").press("Home")
        page.mouse.click(x + away, y)
        assert place(page) == program.peak_event
    box = page.locator(".picture.bytes").bounding_box()
    assert box is not None
    page.mouse.move(x + 4, box["y"] + 80)
    tip = page.locator(".picture.bytes .tip").inner_text()
    assert f"event {program.peak_event:,}" in tip and "1.00 GiB live" in tip
    page.mouse.click(x + 30, y)
    assert place(page) not in (0, program.peak_event)


def test_pictures_have_titles_and_say_what_their_axes_are(leak) -> None:
    _, page = leak
    assert page.locator(".left h3").all_inner_texts() == ["Bytes", "Map of addresses"]
    axes = page.locator(".axes")
    assert axes.nth(0).inner_text() == "Upwards: bytes. To the right: events."
    assert "Upwards: addresses" in axes.nth(1).inner_text() and axes.nth(1).inner_text().endswith("events.")
    page.locator("#axis").select_option("time")
    assert axes.nth(0).inner_text().endswith("time.") and axes.nth(1).inner_text().endswith("time.")


def legend(page: Page, home: str) -> dict[str, str]:
    """The colour of each name in a legend of blocks."""
    items = page.locator(f"{home} .legend").last.locator("li").all()
    return {item.inner_text(): item.locator("i").evaluate("it => getComputedStyle(it).backgroundColor") for item in items}


def test_a_tag_has_one_colour_in_all_runs(tmp_path, report, show) -> None:
    runs = [("a", "b", "c"), ("c", "d", "e"), ("e", "b", "f", "a", "d")]
    logs = []
    for index, tags in enumerate(runs):
        program = Program(tmp_path / f"{index}.csv")
        for size, tag in enumerate(tags):
            program.allocate((10 - size) * MIB, tag)
        logs.append(program.written())
    page = show(report(*logs))
    colours: dict[str, str] = {}
    for index, tags in enumerate(runs):
        page.locator("#view").select_option(str(index))
        other = (index + 1) % len(runs)
        page.locator("#two-select").select_option(str(other))
        for home, expected in ((".left", tags), (".two", runs[other])):
            seen = legend(page, home)
            assert set(seen) == set(expected)
            for tag, colour in seen.items():
                assert colours.setdefault(tag, colour) == colour, tag
    assert len(set(colours.values())) == len(colours) == 6, "and no two have the same"
    assert page.locator(".two h4").inner_text() == "Map of addresses of 0.csv"


def bad_pixels(page: Page) -> dict[str, int]:
    """Of the picture of bytes: the most pixels of failures' colour in a row, and columns with many below the top."""
    return page.evaluate("""() => {
        const canvas = document.querySelector('.picture.bytes canvas');
        const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const [rows, columns] = [new Array(height).fill(0), new Array(width).fill(0)];
        for (let y = 20; y < height; y += 1) {
            for (let x = 0; x < width; x += 1) {
                const [r, g, b] = data.subarray((y * width + x) * 4);
                if (data[(y * width + x) * 4 + 3] > 0 && r > g + 60 && r > b + 60) {
                    rows[y] += 1;
                    columns[x] += 1;
                }
            }
        }
        return { row: Math.max(...rows), columns: columns.filter((count) => count > 40).length };
    }""")


def test_a_failed_request_is_drawn_above_what_was_live_and_found(tmp_path, report, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    path = tmp_path / "page.html"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", "limiting(cuda, limit=350MiB)", "--html", path)
    page = show(path)
    assert "limit of 350.0 MiB" in page.locator(".legend").first.inner_text()
    found = bad_pixels(page)
    assert found["row"] > 200, "a dotted line for the limit"
    assert found["columns"] >= 5, "a bar for the request"
    for text in ("large", "300MiB", "failed"):
        page.locator("#find").fill(text)
        assert page.locator(".said").inner_text().endswith("1 request that failed")
    page.locator("#cursor").press("Home")
    row = page.locator(".finder tr").first
    assert "failed at event 193, large" in row.inner_text()
    row.locator("button").click()
    assert place(page) == 193
    page.locator("#find").fill("pieces")
    assert "failed" not in page.locator(".said").inner_text()
    # Nothing of this where nothing failed.
    page = show(report(program.path))
    assert bad_pixels(page) == {"row": 0, "columns": 0}
    assert "limit" not in page.locator(".legend").first.inner_text()


def test_keys_are_named_where_there_is_something_to_go_to(tmp_path, report, show) -> None:
    page = show(report(programs.failure(tmp_path / "failure.csv").path))
    assert page.locator("#keys").inner_text().endswith("p goes to the peak, f to the first failure.")
    page = show(report(programs.spike(tmp_path / "spike.csv").path))
    assert page.locator("#keys").inner_text().endswith("p goes to the peak.")


def test_the_legend_of_a_dashed_line_is_dashed(tmp_path, rmm, show) -> None:
    program = programs.fragmented(tmp_path / "fragmented.csv")
    path = tmp_path / "page.html"
    rmm("replay", program.path, "--device", "sim", "--repeat", "1", "--resource", "pool,pool-cuda", "--html", path)
    page = show(path)
    style = "it => getComputedStyle(it).borderTopStyle"

    def dashes() -> dict[str, bool]:
        items = page.locator(".legend").first.locator("li", has_text="held by").all()
        return {item.inner_text(): item.locator("i").evaluate(style) == "dashed" for item in items}

    assert dashes() == {"held by pool": False, "held by pool-cuda": True}
    page.locator("#view").select_option("1")
    assert dashes() == {"held by pool": True, "held by pool-cuda": False}


def test_a_spike_of_one_event_is_wide_enough_to_be_seen(tmp_path, report, show) -> None:
    program = programs.spike(tmp_path / "spike.csv")
    page = show(report(program.path), width=700)
    columns = page.evaluate("""() => {
        const canvas = document.querySelector('.picture.bytes canvas');
        const y = Math.round(canvas.height * 0.45);
        const { data } = canvas.getContext('2d').getImageData(0, y, canvas.width, 1);
        let columns = 0;
        for (let x = 80; x < canvas.width; x += 1) columns += data[x * 4 + 2] > data[x * 4] + 30 ? 1 : 0;
        return columns;
    }""")
    assert columns >= 3


def test_words_of_pools_are_explained_and_what_stays_is_said(tmp_path, rmm, show) -> None:
    program = programs.Program(tmp_path / "left.csv")
    program.allocate(8 * MIB, "weights")
    program.steps(4)
    path = tmp_path / "page.html"
    rmm("replay", program.written(), "--device", "sim", "--repeat", "1", "--resource", "pool", "--html", path)
    page = show(path)
    text = page.locator("body").inner_text()
    assert "Kept for graphs: freed while a stream was captured" in text and "Asleep: addresses of a pool" in text
    assert "The software device is a model of one" in text and "memory without a map" not in text
    assert "from event 1, never freed" in page.locator(".moment").inner_text()
    page.locator(".card", has_text="What was the peak").locator("summary").click()
    assert "from event 1, never freed" in page.locator(".card").first.inner_text()
