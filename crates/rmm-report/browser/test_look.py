"""How the page looks: light, dark, narrow, wide, printed; and to people who do not see it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import programs

ASSETS = Path(__file__).resolve().parents[1] / "src/page/assets"


@pytest.fixture(scope="session")
def packages(tmp_path_factory) -> Path:
    """axe-core and TypeScript, from npm."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    folder = tmp_path_factory.mktemp("packages")
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core@4.10", "typescript@5.9"]
    if subprocess.run(install, capture_output=True, check=False).returncode != 0:
        pytest.skip("npm cannot fetch axe-core and typescript")
    return folder / "node_modules"


def planted(kind: str, tmp_path: Path, report, rmm) -> Path:
    if kind == "failure":
        return report(programs.failure(tmp_path / "failure.csv").path)
    if kind == "two":
        before = programs.leak_freed_at_exit(tmp_path / "before.csv", steps=60)
        return report(before.path, programs.leak_freed_at_exit(tmp_path / "after.csv", steps=80).path)
    page = tmp_path / "page.html"
    log = programs.fragmented(tmp_path / "fragmented.csv").path
    rmm("replay", log, "--device", "sim", "--repeat", "1", "--resource", "pool,pool-cuda", "--html", page)
    return page


@pytest.mark.parametrize("kind", ["failure", "two", "replay"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(packages, tmp_path, report, rmm, show, scheme, kind) -> None:
    page = show(planted(kind, tmp_path, report, rmm), scheme=scheme)
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    if kind != "failure":
        page.locator("#two-select").select_option("1")
    page.evaluate((packages / "axe-core/axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((run) => run.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 160))]))")
    assert found == []


@pytest.mark.parametrize("width", [390, 768, 1280, 2560])
@pytest.mark.parametrize("kind", ["failure", "two", "replay"])
def test_nothing_sticks_out(tmp_path, report, rmm, show, width, kind) -> None:
    page = show(planted(kind, tmp_path, report, rmm), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator(".picture.map canvas").first.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width and box["width"] > 200
    small = page.evaluate("""[...document.querySelectorAll('button, select, summary, input')]
        .filter((e) => e.offsetParent && (e.getBoundingClientRect().height < 18)).length""")
    assert small == 0


def test_dark_and_light_are_different_and_change_at_once(tmp_path, report, show) -> None:
    page = show(report(programs.failure(tmp_path / "failure.csv").path), scheme="light")
    canvas = "document.querySelector('.picture.map canvas').toDataURL()"
    light = page.evaluate(canvas)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(20, 23, 27)"
    # It is drawn again as soon as the browser says so.
    page.wait_for_timeout(500)
    assert page.evaluate(canvas) != light


def test_print_has_answers_and_pictures_without_controls(tmp_path, report, show) -> None:
    page = show(report(programs.failure(tmp_path / "failure.csv").path), scheme="dark")
    page.emulate_media(media="print")
    assert page.locator(".controls").is_hidden() and page.locator("#find").is_hidden()
    assert page.locator(".card").first.is_visible() and page.locator(".picture.map canvas").first.is_visible()
    assert page.locator(".card tr").first.is_visible(), "what is folded is printed"
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 20_000


def test_print_is_light_and_keeps_pictures_whole(tmp_path, report, show) -> None:
    page = show(report(programs.failure(tmp_path / "failure.csv").path), scheme="dark")
    # Read from a copy: a canvas that is read often is one to complain about.
    pixel = """(() => {
        const copy = document.createElement('canvas');
        copy.getContext('2d').drawImage(document.querySelector('.picture.map canvas'), 0, 0);
        return [...copy.getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3);
    })()"""
    dark = page.evaluate(pixel)
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_timeout(500)
    assert sum(page.evaluate(pixel)) > 600 > sum(dark), "the canvas has the colours of paper"
    assert page.locator(".picture .cursor").first.is_hidden()
    # Cards are blocks: one that is longer than what is left of a sheet does not leave an empty box.
    assert page.evaluate("getComputedStyle(document.querySelector('.cards')).display") == "block"
    for picture in page.locator(".picture:has(canvas)").all():
        assert picture.evaluate("it => getComputedStyle(it).breakInside") == "avoid"
        box = picture.bounding_box()
        assert box is not None and box["width"] <= 720
    page.emulate_media(media="screen", color_scheme="dark")
    page.wait_for_timeout(500)
    assert page.evaluate(pixel) == dark
    # A browser that prints says so before the sheets are laid out.
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert sum(page.evaluate(pixel)) > 600
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(pixel) == dark


def test_a_table_that_is_wider_than_the_page_says_so(tmp_path, report, rmm, show) -> None:
    path = planted("two", tmp_path, report, rmm)
    first = "getComputedStyle(document.querySelector('main > .wide'), '::before').content"
    assert "scroll sideways" in show(path, width=390).evaluate(first)
    assert show(path, width=1280).evaluate(first) == "none"


def test_the_script_is_type_checked(packages, tmp_path) -> None:
    types = tmp_path / "types.d.ts"
    types.write_text("declare const uPlot: any;\n")
    files = sorted(str(file) for file in ASSETS.glob("*.js") if file.name != "uplot.js")
    options = ["--checkJs", "--allowJs", "--noEmit", "--strict", "--target", "es2023", "--lib", "es2023,dom,dom.iterable"]
    check = ["node", str(packages / "typescript/bin/tsc"), *options, str(types), *files]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_only_the_pages_own_script_runs(tmp_path, report, browser) -> None:
    path = report(programs.failure(tmp_path / "failure.csv").path)
    path.write_text(path.read_text().replace("</body>", "<script>document.title = 'owned'</script></body>"))
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert page.title() != "owned"
    assert any("Content Security Policy" in text for text in said)
    page.close()
