//! Where the sockets are: a folder that is one user's alone, so that no other user can put a socket
//! or a link there.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

/// The most files of the folder that are looked at.
const MOST_FILES: usize = 1000;

/// The user of this process.
pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The folder of this process; makes it if it is missing.
///
/// # Errors
/// If it cannot be made, or is not this user's alone.
pub(super) fn own_folder() -> io::Result<PathBuf> {
    let user = own_user();
    let folder = folders(user).swap_remove(0);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(named(&folder, &error));
        }
        _ => {}
    }
    check(&folder, user)?;
    Ok(folder)
}

/// Where the processes of a user may have their sockets, this process's own folder first.
pub(super) fn folders(user: u32) -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // It is another user's after `sudo`.
    let is_of_user = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.uid() == user);
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir() && is_of_user(path));
    let temporary = PathBuf::from(format!("/tmp/rmm-{user}"));
    let usual = PathBuf::from(format!("/run/user/{user}/rmm"));
    let mut folders: Vec<PathBuf> = runtime.map(|path| path.join("rmm")).into_iter().collect();
    folders.push(temporary);
    if !folders.contains(&usual) {
        folders.push(usual);
    }
    folders
}

/// Checks that a folder is this user's alone.
///
/// # Errors
/// If it is a link or no folder, belongs to someone else, or others may look into it.
pub(super) fn check(folder: &Path, user: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(folder).map_err(|error| named(folder, &error))?;
    let wrong = if found.is_symlink() {
        "it is a link"
    } else if !found.is_dir() {
        "it is no folder"
    } else if found.uid() != user {
        "it belongs to another user"
    } else if found.mode() & 0o077 != 0 {
        "others may use it: its mode has to be 0700"
    } else {
        return Ok(());
    };
    Err(io::Error::new(ErrorKind::PermissionDenied, format!("{}: {wrong}", folder.display())))
}

/// The socket of a process in a folder.
pub(super) fn socket(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{pid}.sock"))
}

/// The processes whose sockets are in a folder.
pub(super) fn processes(folder: &Path) -> Vec<u32> {
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let names =
        files.flatten().take(MOST_FILES).filter_map(|file| file.file_name().into_string().ok());
    names.filter_map(|name| name.strip_suffix(".sock")?.parse().ok()).collect()
}

/// Removes the sockets that processes left behind which were killed.
pub(super) fn remove_stale(folder: &Path) {
    for pid in processes(folder) {
        let path = socket(folder, pid);
        if !Path::new(&format!("/proc/{pid}")).exists() && !answers(&path) {
            // Another process may have removed it.
            let _ignored = fs::remove_file(path);
        }
    }
}

/// Whether someone listens there: a process that is not seen from here may. One that takes no
/// connections does.
pub(super) fn answers(path: &Path) -> bool {
    connect(path, Duration::from_secs(1))
        .map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |_| true)
}

/// Connects to a socket. Waits at most so long where as many wait already as the system lets.
pub(super) fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    let stream = UnixStream::from(socket);
    stream.set_write_timeout(Some(patience))?;
    rustix::net::connect(&stream, &address)?;
    Ok(stream)
}

/// The error, with the path.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
