//! Files are written atomically.

use std::fs;

use rmm_cli::output::write_atomically;

#[test]
fn a_file_is_created_and_replaced_and_nothing_else_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.json");
    write_atomically(&path, b"a longer first version").expect("created");
    write_atomically(&path, b"second").expect("replaced");
    assert_eq!(fs::read(&path).expect("there"), b"second");
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
}

#[test]
fn errors_name_the_file_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing/out.json");
    let error = write_atomically(&missing, b"").expect_err("no such folder").to_string();
    assert!(error.starts_with(&format!("cannot write {}: ", missing.display())), "{error}");
    assert!(!error.contains(".rmm-") && !error.contains("entity"), "{error}");
    let error = write_atomically(folder.path(), b"").expect_err("a folder").to_string();
    assert_eq!(error, format!("cannot write {}: is a directory", folder.path().display()));
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_others_may_read() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = tempfile::tempdir().expect("a folder");
    let (target, link, plain) =
        (folder.path().join("target"), folder.path().join("link"), folder.path().join("plain"));
    fs::write(&plain, b"").expect("written");
    write_atomically(&target, b"old").expect("created");
    symlink(&target, &link).expect("linked");
    write_atomically(&link, b"new").expect("replaced");
    assert_eq!(fs::read(&target).expect("there"), b"new");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    let mode = |path| fs::metadata(path).expect("there").permissions().mode();
    assert_eq!(mode(&target), mode(&plain), "the mode of any new file");
}

#[cfg(unix)]
#[test]
fn a_device_is_written_to() {
    use std::path::Path;

    let null = Path::new("/dev/null");
    write_atomically(null, b"gone").expect("written");
    assert!(!fs::metadata(null).expect("there").is_file());
}
