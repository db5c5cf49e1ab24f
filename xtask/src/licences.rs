//! The licences of what is linked into a library that is shipped: names of crates, and the texts
//! that their licences ask for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::error::{Context as _, Result};

/// The file in which packages have the texts.
pub(crate) const FILE: &str = "LICENSE-THIRD-PARTY";

/// The text of this workspace's own licence.
const MIT: &str = include_str!("../../LICENSE-MIT");

/// What is in the sources of a crate of the workspace and not ours: the crate, what it is, and its
/// licence.
const VENDORED: [(&str, &str, &str); 1] = [(
    "rmm-report",
    "uPlot 1.6.32 (MIT), in pages",
    include_str!("../../crates/rmm-report/src/page/assets/uplot-LICENSE.txt"),
)];

/// The platform of what is shipped.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Licences of which a crate offers another one as well.
const ALTERNATIVES: [&str; 5] = ["APACHE", "UNLICENSE", "ZLIB", "0BSD", "COPYING"];

/// The text for a package of the workspace: what it is built of.
///
/// # Errors
/// If a crate comes without a text.
pub(crate) fn text_of(package: &str) -> Result<String> {
    let mut command = MetadataCommand::new();
    let platform = ["--filter-platform", PLATFORM].map(str::to_owned);
    let metadata = command.other_options(platform).exec().context("cargo metadata")?;
    let mut crates = BTreeMap::new();
    collect(&metadata, package, &mut crates)?;
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in crates.values().filter(|package| package.source.is_some()) {
        let licence = package.license.as_deref().unwrap_or("see the text");
        let name = format!("{} {} ({licence})", package.name, package.version);
        for text in texts(package)? {
            by_text.entry(text).or_default().push(name.clone());
        }
    }
    for (package, name, text) in VENDORED {
        if crates.values().any(|linked| linked.name == package) {
            by_text.entry(text.to_owned()).or_default().push(name.to_owned());
        }
    }
    let mut all = "This library contains the following crates, and Rust's standard library \
                   (MIT OR Apache-2.0).\n"
        .to_owned();
    for (text, names) in by_text {
        write!(all, "\n{}\n{}\n\n{}\n", "-".repeat(80), names.join("\n"), text.trim_end())
            .expect("a string can be written to");
    }
    Ok(all)
}

/// The package, and what it depends on for its code, by name and version.
fn collect<'m>(
    metadata: &'m Metadata,
    package: &str,
    crates: &mut BTreeMap<String, &'m Package>,
) -> Result<()> {
    let resolved = metadata.resolve.as_ref().context("cargo metadata resolves")?;
    let named = metadata.packages.iter().find(|known| known.name == package);
    let mut ids = vec![&named.context(package)?.id];
    while let Some(id) = ids.pop() {
        let package = &metadata[id];
        if crates.insert(format!("{} {}", package.name, package.version), package).is_some() {
            continue;
        }
        let node = resolved.nodes.iter().find(|node| node.id == *id).context("a node")?;
        let is_code = |kind: DependencyKind| kind == DependencyKind::Normal;
        let code = node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(|it| is_code(it.kind)));
        ids.extend(code.map(|dep| &dep.pkg));
    }
    Ok(())
}

/// The licence texts in a crate's folder, without those of which it offers another.
fn texts(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a folder")?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).context(folder)? {
        let name = entry.context(folder)?.file_name().to_string_lossy().into_owned();
        let upper = name.to_uppercase();
        if ["LICEN", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|start| upper.starts_with(start))
        {
            names.push(name);
        }
    }
    names.sort();
    let is_alternative =
        |name: &String| ALTERNATIVES.iter().any(|it| name.to_uppercase().contains(it));
    let needed: Vec<String> = names.iter().filter(|name| !is_alternative(name)).cloned().collect();
    let wanted = if needed.is_empty() { names } else { needed };
    if wanted.is_empty() {
        return Err(format!("{} has no licence text", package.name).into());
    }
    let read = |name: &String| {
        let path = Path::new(folder.as_str()).join(name);
        fs::read_to_string(&path).context(path.display())
    };
    wanted.iter().map(|name| Ok(whole(read(name)?, package))).collect()
}

/// The text, or that of the licence MIT if a crate was packaged with a link in its place.
fn whole(text: String, package: &Package) -> String {
    if text.lines().count() > 1 || package.license.as_deref() != Some("MIT") {
        return text;
    }
    let from = MIT.find("Permission").expect("it is the text of that licence");
    format!("Copyright (c) {}\n\n{}", package.authors.join(", "), &MIT[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_that_is_linked_in_has_its_text() {
        let text = text_of("rmm-py").expect("each crate has a text");
        for part in [
            "zstd-sys ",
            "uPlot 1.6.32 ",
            "pyo3 ",
            "dashmap ",
            "libloading ",
            "Redistributions in binary form",
        ] {
            assert!(text.contains(part), "{part}");
        }
        assert!(!text.contains("roxmltree"), "of the workspace's own tools");
        let of_c = text_of("rmm-capi").expect("each crate has a text");
        assert!(of_c.contains("dashmap ") && !of_c.contains("pyo3 "));
    }
}
