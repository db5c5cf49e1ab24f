//! The header is the one that the source has.
//!
//! `RMM_UPDATE_HEADER=1 cargo test -p rmm-capi --test header` writes it anew.

use std::path::Path;

#[test]
fn the_header_is_generated_from_the_source() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let configuration = crate_folder.join("cbindgen.toml");
    let configuration = cbindgen::Config::from_file(configuration).expect("it is valid");
    let builder = cbindgen::Builder::new().with_crate(crate_folder).with_config(configuration);
    let generated = builder.generate().expect("the source is understood");
    let mut text = Vec::new();
    generated.write(&mut text);
    let text = String::from_utf8(text).expect("the source is UTF-8");

    let header = crate_folder.join("include/rmm_rs.h");
    if std::env::var_os("RMM_UPDATE_HEADER").is_some() {
        std::fs::write(&header, &text).expect("the folder is writable");
    }
    let checked_in = std::fs::read_to_string(&header).unwrap_or_default();
    let differs = text.lines().zip(checked_in.lines()).find(|(new, old)| new != old);
    assert!(
        text == checked_in,
        "include/rmm_rs.h is not what the source says, first at {differs:?}: write it anew with \
         RMM_UPDATE_HEADER=1"
    );
}
