//! Circles of files: within a crate, as between crates, one of two files is below the other. Where
//! a crate has folders for its layers, each imports from those below it alone.
//!
//! What counts is what a file imports at its top level, outside its tests, from modules of its
//! crate. A module that declares or re-exports a child (`mod`, `pub use`) is not above it by that,
//! and a name belongs to the module that it is imported from.

use std::collections::{BTreeMap, BTreeSet};

use super::files::SourceFile;
use super::finding::Finding;

/// The files of a crate by the paths of their modules, as `pool::heap`; its own path is empty.
type Modules<'a> = BTreeMap<String, &'a SourceFile>;

/// The layers of a folder of a crate, from below: folders of one layer do not use each other.
struct Layers {
    of_crate: &'static str,
    /// The path of the folder as a module, with the `::` behind it; empty for `src`.
    above: &'static str,
    folders: &'static [&'static [&'static str]],
}

const LAYERS: [Layers; 4] = [
    Layers {
        of_crate: "crates/rmm-adaptors",
        above: "",
        folders: &[&["sync"], &["shared"], &["suballocators", "adaptors"]],
    },
    Layers {
        of_crate: "crates/rmm-adaptors",
        above: "suballocators::pool::",
        folders: &[&["values"], &["timeline", "caches", "heap"], &["state"], &["steps"], &["api"]],
    },
    Layers {
        of_crate: "crates/rmm-capi",
        above: "",
        folders: &[&["handle"], &["streams"], &["calls"], &["frameworks"]],
    },
    Layers {
        of_crate: "crates/rmm-py",
        above: "",
        folders: &[&["interpreter"], &["stream"], &["resource"], &["buffer"]],
    },
];

/// Finds the circles within each crate, and what goes up in the layers.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut crates = BTreeMap::<&str, Modules<'_>>::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.path.contains("/tests")) {
        let Some((of_crate, path)) = file.path.split_once("/src/") else { continue };
        let path = path.trim_end_matches(".rs");
        let path = if path == "lib" || path == "main" { "" } else { path };
        // Of a library that is a program too, the library.
        crates.entry(of_crate).or_default().entry(path.replace('/', "::")).or_insert(file);
    }
    let mut findings = Vec::new();
    for (of_crate, modules) in &crates {
        let edges =
            modules.iter().map(|(own, file)| (own, used(own, &file.text, modules))).collect();
        findings.extend(circles(modules, &edges));
        let layered = LAYERS.iter().filter(|layers| layers.of_crate == *of_crate);
        findings.extend(layered.flat_map(|layers| upward(layers, modules, &edges)));
    }
    findings
}

/// What each file imports from.
type Edges<'a> = BTreeMap<&'a String, BTreeSet<String>>;

/// The arrows that do not lead to a layer below.
fn upward(layers: &Layers, modules: &Modules<'_>, edges: &Edges<'_>) -> Vec<Finding> {
    let place = |module: &str| {
        let folder = module.strip_prefix(layers.above)?.split("::").next()?;
        let layer = layers.folders.iter().position(|folders| folders.contains(&folder))?;
        Some((layer, folder.to_owned()))
    };
    let arrows = edges.iter().flat_map(|(own, used)| used.iter().map(move |used| (*own, used)));
    let is_up = |(own, used): &(&String, &String)| match (place(own), place(used)) {
        (Some(own), Some(used)) => used.0 > own.0 || used.0 == own.0 && used.1 != own.1,
        _ => false,
    };
    let finding = |(own, used): (&String, &String)| {
        Finding::new(&modules[own].path, 1, format!("`{used}` is in no layer below"))
    };
    arrows.filter(is_up).map(finding).collect()
}

fn circles(modules: &Modules<'_>, edges: &Edges<'_>) -> Vec<Finding> {
    let mut reached = BTreeMap::new();
    for own in modules.keys() {
        let (mut seen, mut next) = (BTreeSet::new(), vec![own]);
        while let Some(module) = next.pop() {
            next.extend(edges[module].iter().filter(|&used| seen.insert(used)));
        }
        reached.insert(own, seen);
    }
    let circle_of = |own: &String| -> Vec<&String> {
        reached[own].iter().copied().filter(|other| reached[other].contains(own)).collect()
    };
    let circles = modules.keys().map(|own| (own, circle_of(own)));
    // Each once, at the first of its files.
    let circles = circles.filter(|(own, circle)| circle.first() == Some(own));
    circles
        .map(|(own, circle)| {
            let files: Vec<_> = circle.iter().map(|module| &*modules[*module].path).collect();
            let text = format!("these files use each other in a circle: {}", files.join(", "));
            Finding::new(&modules[own].path, 1, text)
        })
        .collect()
}

/// The other modules that a file of this text imports from.
fn used(own: &str, text: &str, modules: &Modules<'_>) -> BTreeSet<String> {
    let (mut found, mut is_test) = (BTreeSet::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let public = line.strip_prefix("pub").and_then(|line| line.split_once(" use "));
        let Some(tree) = line.strip_prefix("use ").or(public.map(|(_, tree)| tree)) else {
            is_test = line.starts_with("#[cfg(test") || line.starts_with("#[cfg(all(test");
            continue;
        };
        let mut tree = tree.to_owned();
        while !tree.ends_with(';') {
            let Some(line) = lines.next() else { break };
            tree.push_str(line.trim());
        }
        let is_child = |module: &str| {
            let below = module.strip_prefix(own);
            below.is_some_and(|below| own.is_empty() || below.starts_with("::"))
        };
        let paths = if is_test { Vec::new() } else { expand(tree.trim_end_matches(';')) };
        let paths = paths.iter().filter_map(|path| module_of(own, path, modules));
        let paths = paths.filter(|module| module != own && modules.contains_key(module));
        found.extend(paths.filter(|module| public.is_none() || !is_child(module)));
        is_test = false;
    }
    found
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let mut depth = 0;
    let parts = rest.trim_end().strip_suffix('}').unwrap_or(rest).split(|letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        letter == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty()).flat_map(expand);
    parts.map(|part| format!("{}{part}", before.trim())).collect()
}

/// The module of the crate that a path leads to; `None` for a path of another crate.
fn module_of(own: &str, path: &str, modules: &Modules<'_>) -> Option<String> {
    let below =
        |module: &str, child| format!("{module}::{child}").trim_start_matches("::").to_owned();
    let mut parts = path.split("::").peekable();
    let mut module = own.to_owned();
    match *parts.peek()? {
        "crate" => module = String::new(),
        "self" | "super" => {}
        child if modules.contains_key(&below(own, child)) => {}
        _ => return None,
    }
    for part in parts {
        match part {
            "crate" | "self" => {}
            "super" => module.truncate(module.rfind("::").unwrap_or(0)),
            child if modules.contains_key(&below(&module, child)) => module = below(&module, child),
            _ => break,
        }
    }
    Some(module)
}

#[cfg(test)]
#[path = "circles/tests.rs"]
mod tests;
