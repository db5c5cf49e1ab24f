//! The page as HTML.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::answers::Answers;
use super::answers::compare::Compared;
use super::answers::share::Grouping;
use super::answers::words::{self, Answer};
use super::encode::{self, Columns};
use super::escape::escape;
use super::view::{View, titles};
use super::{MemoryPage, tables};

/// With more views than this only the answers about the first are open.
const OPEN: usize = 4;

/// The style sheet.
pub(super) const STYLE: &str =
    concat!(include_str!("assets/uplot.css"), include_str!("assets/page.css"));

/// The script: uPlot, then our own files in the order in which they need each other.
const SCRIPT: &str = concat!(
    include_str!("assets/uplot.js"),
    include_str!("assets/format.js"),
    include_str!("assets/columns.js"),
    include_str!("assets/model.js"),
    include_str!("assets/moment.js"),
    include_str!("assets/groups.js"),
    include_str!("assets/colours.js"),
    include_str!("assets/raster.js"),
    include_str!("assets/axis.js"),
    include_str!("assets/bytes.js"),
    include_str!("assets/map.js"),
    include_str!("assets/heap.js"),
    include_str!("assets/who.js"),
    include_str!("assets/two.js"),
    include_str!("assets/find.js"),
    include_str!("assets/main.js"),
);

/// Renders a page, whose views have these answers.
pub(super) fn render(page: &MemoryPage, answers: &[Answers]) -> String {
    let mut html = head(&page.title, SCRIPT);
    html += "<body>\n<a class=\"skip\" href=\"#picture\">Skip to the picture</a>\n<header>\n";
    let _ = writeln!(html, "<h1>{}</h1>\n<p>{}</p>", escape(&page.title), escape(&page.about));
    for notice in &page.notices {
        let _ = writeln!(html, "<p class=\"notice\">{}</p>", escape(notice));
    }
    html += "</header>\n<main>\n";
    let titles = titles(&page.views);
    html += &texts(page, answers, &titles);
    html += "<section id=\"picture\" aria-label=\"The picture\">\n<p id=\"state\" role=\"status\">";
    html += if page.views.is_empty() {
        "There is no pool whose memory could be drawn.</p>\n"
    } else {
        "<noscript>What is above needs no script; the picture needs one. </noscript></p>\n"
    };
    html += "</section>\n</main>\n<footer>\n<p>One file, no network. Lines are drawn by uPlot 1.6.32 (MIT licence).</p>\n</footer>\n";
    if !page.views.is_empty() {
        html += &data(page, answers, &titles);
    }
    let _ = writeln!(html, "<script>{SCRIPT}</script>\n</body>\n</html>");
    html
}

/// Everything above the body: the policy lets only this script and our style sheet take effect.
pub(super) fn head(title: &str, script: &str) -> String {
    let digest = |text: &str| BASE64.encode(Sha256::digest(text));
    let script = if script.is_empty() {
        String::new()
    } else {
        format!("script-src 'sha256-{}'; ", digest(script))
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         {script}style-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n",
        digest(STYLE),
        escape(title),
    )
}

/// The answers, and the tables. Of many views a table comes first.
fn texts(page: &MemoryPage, answers: &[Answers], titles: &[String]) -> String {
    let mut html = String::new();
    if page.tables.is_empty() && page.views.len() > 1 {
        html += &tables::overview(titles, answers).markup();
    }
    for (index, (view, about)) in page.views.iter().zip(answers).enumerate() {
        let mut said = said(view, about, answers);
        if index == 0 && view.events > 0 {
            said.push(match page.views.len() {
                1 => words::say_alone(about),
                _ if are_of_one_log(&page.views) => words::say_resources(answers, titles),
                count => compared(page, answers, titles, count - 1),
            });
        }
        let same = if index > 0 && are_of_one_log(&page.views) {
            drop_same(&mut said, &self::said(&page.views[0], &answers[0], answers), &titles[0])
        } else {
            String::new()
        };
        let cards = tables::cards(&said, index);
        let title = match page.views.len() {
            1 => "Answers".to_owned(),
            _ => escape(&titles[index]),
        };
        // Writing to a String cannot fail.
        let _ = if index == 0 {
            writeln!(
                html,
                "<section aria-label=\"Answers\">\n<h2>{title}</h2>\n<div class=\"cards\">\n{cards}</div>\n</section>"
            )
        } else {
            let open = if page.views.len() <= OPEN { " open" } else { "" };
            writeln!(
                html,
                "<details class=\"more\"{open}>\n<summary><h2>{title}</h2></summary>\n{same}<div class=\"cards\">\n{cards}</div>\n</details>"
            )
        };
    }
    for table in &page.tables {
        html += &table.markup();
    }
    html
}

/// The answers about a view; of a resource in use only what one moment can answer.
fn said(view: &View, answers: &Answers, all: &[Answers]) -> Vec<Answer> {
    let mut said = words::say(answers, all);
    if view.events == 0 {
        said.retain(|answer| answer.question == "Leak or fragmentation?");
    }
    said
}

/// Whether the views are resources that served one log.
fn are_of_one_log(views: &[View]) -> bool {
    views.iter().all(|view| view.resource.is_some() && view.log == views[0].log)
}

/// Takes out the answers that the first view has, too; what they are, as markup.
fn drop_same(said: &mut Vec<Answer>, first: &[Answer], title: &str) -> String {
    let same: Vec<&str> = said
        .iter()
        .filter(|answer| first.contains(answer))
        .map(|answer| answer.question.trim_end_matches('?'))
        .collect();
    if same.is_empty() {
        return String::new();
    }
    let text = format!("As for {title}: {}.", same.join("; "));
    said.retain(|answer| !first.contains(answer));
    format!("<p class=\"note same\">{}</p>\n", escape(&text))
}

/// What changed from the first view to another.
fn compared(page: &MemoryPage, answers: &[Answers], titles: &[String], other: usize) -> Answer {
    let of = |index: usize| (titles[index].as_str(), &page.views[index], &answers[index]);
    words::say_compared(&Compared::of(of(0), of(other)))
}

/// What the script reads: no text of it can end its element.
fn data(page: &MemoryPage, answers: &[Answers], titles: &[String]) -> String {
    let mut columns = Columns::default();
    let views: Vec<_> = page
        .views
        .iter()
        .zip(answers)
        .zip(titles)
        .map(|((view, answers), title)| {
            let mut encoded = encode::view(view, &mut columns);
            encoded["title"] = json!(title);
            encoded["waited"] = json!(answers.settings.waits);
            encoded["peak"] = json!(answers.peak.position);
            let growth = &answers.growth;
            encoded["growth"] = json!([growth.from, growth.to, growth.bytes]);
            let of_tags = growth.growers.iter().filter(|grower| grower.kind == Grouping::Tag);
            encoded["tagsGrow"] =
                of_tags.map(|grower| json!([grower.name, grower.bytes])).collect::<Vec<_>>().into();
            encoded["growers"] = json!(growth.groups);
            encoded
        })
        .collect();
    let text = json!({ "views": views }).to_string().replace('<', "\\u003c");
    let mut html = format!("<script type=\"application/json\" id=\"data\">{text}</script>\n");
    for column in &columns.texts {
        let _ = writeln!(html, "<script type=\"text/plain\" class=\"column\">{column}</script>");
    }
    html
}
