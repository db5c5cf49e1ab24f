//! Watchers that do not keep to the rules, and sockets that are in the way.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::watch::connection::MOST_REQUEST;

/// Tests wait until these are over.
const SHORT: Patience =
    Patience { request: Duration::from_millis(300), answer: Duration::from_millis(300) };

/// Longer than the system buffers for a connection.
const LONG: usize = 16 << 20;

fn echo(request: &[u8]) -> Vec<u8> {
    match request {
        b"long" => vec![b'x'; LONG],
        request => request.to_vec(),
    }
}

fn started(folder: &TempDir, patience: Patience) -> Server {
    Server::start(folder.path().join("a.sock"), fork::generation(), patience, echo)
        .expect("it starts")
}

fn connected(server: &Server) -> UnixStream {
    UnixStream::connect(&server.path).expect("it listens")
}

/// All that comes until the connection is closed.
fn rest(mut stream: UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    // What came before the connection was reset counts.
    let _reset = stream.read_to_end(&mut all);
    all
}

fn asked(server: &Server, request: &[u8]) -> Vec<u8> {
    let mut stream = connected(server);
    stream.write_all(request).expect("it reads");
    rest(stream)
}

#[test]
fn a_request_may_come_in_parts() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, PATIENCE);
    assert_eq!(asked(&server, b"all\n"), b"all");
    let mut stream = connected(&server);
    stream.write_all(b"pa").unwrap();
    // Another one in between shows that the first part was read alone.
    assert_eq!(asked(&server, b"other\n"), b"other");
    stream.write_all(b"rts\r\nand more").unwrap();
    assert_eq!(rest(stream), b"parts\r\nand more");
    assert_eq!(asked(&server, b"long\n").len(), LONG);
}

#[test]
fn half_a_request_is_dropped_and_others_are_served_meanwhile() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, SHORT);
    let mut half = connected(&server);
    half.write_all(b"hal").unwrap();
    assert_eq!(asked(&server, b"whole\n"), b"whole");
    assert_eq!(rest(half), b"");
}

#[test]
fn a_watcher_that_stops_reading_is_dropped_and_others_are_served_meanwhile() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, SHORT);
    let mut stopped = connected(&server);
    stopped.write_all(b"long\n").unwrap();
    assert_eq!(asked(&server, b"whole\n"), b"whole");
    // The next request ends when the server has nothing else to wait for than the deadline.
    let mut ended = connected(&server);
    ended.write_all(b"hal").unwrap();
    assert_eq!(rest(ended), b"");
    let come = rest(stopped).len();
    assert!(0 < come && come < LONG, "{come} bytes");
}

#[test]
fn a_request_without_end_is_dropped_at_its_bound() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, PATIENCE);
    let mut stream = connected(&server);
    let part = vec![b'x'; 1 << 20];
    let mut written = 0;
    let refused = loop {
        match stream.write(&part) {
            Ok(bytes) => written += bytes,
            Err(error) => break error,
        }
        assert!(written < 1 << 30, "it reads a GiB");
    };
    assert!(matches!(refused.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
    assert_eq!(rest(stream), b"");
    // The longest one is taken.
    let mut longest = vec![b'y'; MOST_REQUEST - 1];
    longest.push(b'\n');
    assert_eq!(asked(&server, &longest).len(), MOST_REQUEST - 1);
}

#[test]
fn many_watchers_wait_for_each_other() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, SHORT);
    let mut silent: Vec<UnixStream> = (0..4 * MOST_WATCHERS).map(|_| connected(&server)).collect();
    assert_eq!(asked(&server, b"after\n"), b"after");
    for stream in &mut silent[..MOST_WATCHERS] {
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "it was dropped before");
    }
    let all: Vec<UnixStream> = (0..100)
        .map(|_| {
            let mut stream = connected(&server);
            stream.write_all(b"one\n").unwrap();
            stream
        })
        .collect();
    drop(silent);
    for stream in all {
        assert_eq!(rest(stream), b"one");
    }
}

#[test]
fn watchers_that_are_gone_do_no_harm() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, PATIENCE);
    for request in [&b""[..], b"hal", b"long\n"] {
        for _ in 0..20 {
            let mut stream = connected(&server);
            stream.write_all(request).unwrap();
        }
    }
    assert_eq!(asked(&server, b"after\n"), b"after");
}

#[test]
fn other_users_get_no_answer() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, PATIENCE);
    if place::own_user() != 0 {
        return; // only root can be another user
    }
    // As if the folder and the socket let everyone in.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&server.path, Permissions::from_mode(0o666)).unwrap();
    let path = server.path.clone();
    let other = thread::spawn(move || {
        let other = rustix::thread::Uid::from_raw(4711);
        rustix::thread::set_thread_res_uid(other, other, other).unwrap();
        let Ok(mut stream) = UnixStream::connect(path) else { return None };
        let _closed = stream.write_all(b"other\n");
        Some(rest(stream))
    });
    // Where the test's own folders are closed to others they get no connection.
    assert!(matches!(other.join().unwrap().as_deref(), None | Some(b"")));
    assert_eq!(asked(&server, b"own\n"), b"own");
}

#[test]
fn the_socket_is_the_users_and_goes_when_it_is_closed() {
    let folder = TempDir::new().unwrap();
    let long = Duration::from_secs(600);
    let server = started(&folder, Patience { request: long, answer: long });
    let path = server.path.clone();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // Two at one place are refused, and do not remove what is there.
    let second = Server::start(path.clone(), fork::generation(), PATIENCE, echo);
    assert_eq!(second.unwrap_err().kind(), ErrorKind::AddrInUse);
    assert_eq!(asked(&server, b"still\n"), b"still");
    let mut open = connected(&server);
    open.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _of_child = server.stop.try_clone().unwrap();
    drop(server);
    assert!(!path.exists());
    // The thread has ended, and may not have seen this one.
    match open.read(&mut [0; 1]) {
        Ok(bytes) => assert_eq!(bytes, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    // What is left of a process that was killed is replaced.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = started(&folder, PATIENCE);
    assert_eq!(asked(&server, b"again\n"), b"again");
}

#[test]
fn a_handle_of_the_parent_closes_nothing() {
    let folder = TempDir::new().unwrap();
    let server = started(&folder, PATIENCE);
    let stop = server.stop.try_clone().unwrap();
    let of_parent = fork::generation().wrapping_add(1);
    drop(Server { path: server.path.clone(), stop, generation: of_parent });
    assert_eq!(asked(&server, b"still\n"), b"still");
}

#[test]
fn a_folder_that_is_not_the_users_alone_is_refused() {
    let folder = TempDir::new().unwrap();
    let user = place::own_user();
    let refused = |path: &Path, user| {
        let error = place::check(path, user).expect_err("it is refused").to_string();
        error.rsplit(": ").next().unwrap_or_default().to_owned()
    };
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    place::check(&own, user).unwrap();
    assert_eq!(refused(&own, user + 1), "it belongs to another user");
    let link = folder.path().join("link");
    symlink(&own, &link).unwrap();
    assert_eq!(refused(&link, user), "it is a link");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(refused(&file, user), "it is no folder");
    for mode in [0o710, 0o702, 0o777] {
        fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
        assert_eq!(refused(&own, user), "its mode has to be 0700");
    }
}

#[test]
fn sockets_of_dead_processes_are_removed() {
    let folder = TempDir::new().unwrap();
    // No process has so large a number.
    for name in ["4194305.sock", "other.sock", "4194306.txt"] {
        drop(UnixListener::bind(folder.path().join(name)).unwrap());
    }
    let living = UnixListener::bind(folder.path().join("4194307.sock")).unwrap();
    place::remove_stale(folder.path());
    let mut left = place::processes(folder.path());
    assert_eq!(left, [4_194_307]);
    drop(living);
    place::remove_stale(folder.path());
    left = place::processes(folder.path());
    assert!(left.is_empty());
    assert!(
        folder.path().join("other.sock").exists() && folder.path().join("4194306.txt").exists()
    );
}
