//! Memory of an owner, as it arrives in C. What it does is tested in Rust.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::thread::{self, JoinHandle};

use rmm_core::Device;
use rmm_core::sys::CuDevicePtr;
use rmm_lease::{Server, ServerOptions};
use rmm_rs::calls::base::*;
use rmm_rs::calls::lease::*;
use rmm_rs::calls::pool::*;
use rmm_rs::handle::status::*;
use rmm_sim::{Machine, Schedule};

use super::common::*;
use super::resources::options;

/// An owner on a thread, which ends when the fixture does.
struct Owner {
    folder: tempfile::TempDir,
    running: Option<(UnixStream, JoinHandle<()>)>,
}

impl Owner {
    fn start(machine: &Machine) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut owner = Self { folder, running: None };
        owner.restart(machine);
        owner
    }

    fn restart(&mut self, machine: &Machine) {
        self.end();
        let (stop, other) = UnixStream::pair().expect("the system has sockets");
        let device = Device::new(0).expect("the software device has one");
        let socket = self.folder.path().join("owner.sock");
        let mut server =
            Server::bind(socket, device, ServerOptions::default()).expect("a new socket");
        let there = machine.clone();
        let thread = thread::spawn(move || {
            let _here = there.enter();
            server.run(other).expect("the system can wait");
        });
        self.running = Some((stop, thread));
    }

    fn end(&mut self) {
        let Some((stop, thread)) = self.running.take() else { return };
        drop(stop);
        assert!(thread.join().is_ok(), "the owner does not panic");
    }

    fn connect(&self, lock: u32, timeout: u64) -> Result<Owned, i32> {
        let path = self.folder.path().join("owner.sock").into_os_string().into_string();
        let path = CString::new(path.expect("text")).expect("no zero byte");
        made(|out| c!(rmm_rs_lease_connect(path.as_ptr(), lock, timeout, 500, out)))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(resource: &Owned) -> u32 {
    let mut lock = 77;
    assert_eq!(c!(rmm_rs_lease_lock(resource.0, &raw mut lock)), RMM_RS_OK);
    lock
}

fn put(resource: &Owned, name: &CStr, pointer: *const c_void, bytes: u64) -> i32 {
    let about = b"f4[8]";
    c!(rmm_rs_lease_put(resource.0, name.as_ptr(), pointer, bytes, about.as_ptr().cast(), 5))
}

/// Where a name is, its size, and what is said of it, in a buffer of 3 bytes.
fn get(resource: &Owned, name: &CStr) -> Result<(*mut c_void, u64, [u8; 3], u64), i32> {
    let (mut pointer, mut bytes, mut about, mut count) = (ptr::dangling_mut(), 77, [0; 3], 77);
    let status = c!(rmm_rs_lease_get(
        resource.0,
        name.as_ptr(),
        &raw mut pointer,
        &raw mut bytes,
        about.as_mut_ptr().cast(),
        about.len(),
        &raw mut count
    ));
    if status != RMM_RS_OK {
        assert!(pointer.is_null() && bytes == 0 && count == 0, "a failed function stores nothing");
        return Err(status);
    }
    Ok((pointer, bytes, about, count))
}

unsafe extern "C-unwind" fn note(name: *const c_char, context: *mut c_void) {
    // SAFETY: the context is the vector of the caller, which does not use it meanwhile.
    let names = unsafe { &mut *context.cast::<Vec<CString>>() };
    // SAFETY: the name is a text.
    names.push(unsafe { CStr::from_ptr(name) }.to_owned());
}

fn names(resource: &Owned) -> Vec<CString> {
    let mut names: Vec<CString> = Vec::new();
    let context = (&raw mut names).cast();
    assert_eq!(c!(rmm_rs_lease_walk_names(resource.0, Some(note), context)), RMM_RS_OK);
    names
}

#[test]
fn a_pool_over_a_lease_commits_and_sleeps() {
    let here = Machine::builder().schedule(Schedule::Eager).enter();
    let mut owner = Owner::start(&here);
    let leased = owner.connect(RMM_RS_LEASE_WRITE_OR_READ, 1000).expect("it is free");
    let with = options();
    let pool = made(|out| c!(rmm_rs_pool_new(leased.0, &raw const with, out))).expect("a pool");
    assert_eq!((lock(&leased), lock(&pool)), (RMM_RS_LEASE_WRITE, RMM_RS_LEASE_WRITE));
    let block = allocate(&pool, ptr::null_mut(), 1000).expect("there is memory");
    here.write(CuDevicePtr(block.addr() as u64), &[7; 16]).expect("it is allocated");
    assert_eq!(put(&pool, c"weights", block, 1000), RMM_RS_OK);
    let nothing = c!(rmm_rs_lease_put(pool.0, c"x".as_ptr(), block, 1000, ptr::null(), 5));
    assert_eq!(nothing, RMM_RS_INVALID_ARGUMENT);
    assert_eq!(
        put(&pool, c"outside", ptr::without_provenance(1 << 20), 1),
        RMM_RS_INVALID_ARGUMENT
    );
    assert_eq!(c!(rmm_rs_lease_detach(pool.0)), RMM_RS_NOT_READY, "commit first");
    assert_eq!(owner.connect(RMM_RS_LEASE_READ, 30).map(drop), Err(RMM_RS_NOT_READY));
    assert!(last_error().contains("writes"), "{}", last_error());
    assert_eq!(c!(rmm_rs_lease_commit(pool.0)), RMM_RS_OK);
    assert_eq!(lock(&pool), RMM_RS_LEASE_READ);
    assert_eq!(c!(rmm_rs_lease_commit(pool.0)), RMM_RS_REFUSED, "twice");
    assert_eq!(allocate(&leased, ptr::null_mut(), 1), Err(RMM_RS_ALLOCATION_FAILED));

    let reader = owner.connect(RMM_RS_LEASE_READ, RMM_RS_LEASE_FOREVER).expect("it is committed");
    assert_eq!(names(&reader), [c"weights".to_owned()]);
    let (pointer, bytes, about, count) = get(&reader, c"weights").expect("it is committed");
    assert_eq!((bytes, &about, count), (1000, b"f4[", 5));
    let seen = || {
        let mut seen = [0; 16];
        here.read(CuDevicePtr(pointer.addr() as u64), &mut seen).expect("it is mapped");
        seen
    };
    assert_eq!(seen(), [7; 16]);
    assert_eq!(get(&reader, c"other").map(drop), Err(RMM_RS_REFUSED));
    assert_eq!(c!(rmm_rs_lease_attach(reader.0, 1000, false)), RMM_RS_NOT_READY, "it is attached");
    assert_eq!(c!(rmm_rs_lease_detach(reader.0)), RMM_RS_OK);
    assert_eq!(lock(&reader), RMM_RS_LEASE_NONE);
    assert_eq!(get(&reader, c"weights").map(drop), Err(RMM_RS_NOT_READY), "it is detached");
    assert_eq!(c!(rmm_rs_lease_attach(reader.0, 1000, false)), RMM_RS_OK);
    assert_eq!(seen(), [7; 16]);
    assert_eq!(c!(rmm_rs_lease_detach(reader.0)), RMM_RS_OK);
    assert_eq!(free(&pool, ptr::null_mut(), block, 1000), RMM_RS_OK);
    drop((pool, leased));
    owner.restart(&here);
    let writer = owner.connect(RMM_RS_LEASE_WRITE, 1000).expect("it is free");
    assert_eq!(c!(rmm_rs_lease_commit(writer.0)), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_lease_attach(reader.0, 1000, false)), RMM_RS_REFUSED, "another owner");
    assert_eq!(c!(rmm_rs_lease_attach(reader.0, 1000, true)), RMM_RS_REFUSED, "without the memory");
    assert_eq!(lock(&reader), RMM_RS_LEASE_NONE);
    here.assert_no_violations();
}

#[test]
fn what_is_no_lease_is_refused() {
    let here = Machine::builder().schedule(Schedule::Eager).enter();
    let owner = Owner::start(&here);
    for lock in [RMM_RS_LEASE_NONE, 4] {
        assert_eq!(owner.connect(lock, 0).map(drop), Err(RMM_RS_INVALID_ARGUMENT));
    }
    let connect = |path: *const c_char| {
        made(|out| c!(rmm_rs_lease_connect(path, RMM_RS_LEASE_READ, 0, 0, out))).map(drop)
    };
    assert_eq!(connect(ptr::null()), Err(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(connect(c"/nowhere.sock".as_ptr()), Err(RMM_RS_NOT_READY));
    assert!(last_error().contains("no owner answers at /nowhere.sock"), "{}", last_error());
    assert!(last_error().contains("No such file"), "{}", last_error());
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("a resource");
    let mut number = 77;
    assert_eq!(c!(rmm_rs_lease_lock(cuda.0, &raw mut number)), RMM_RS_REFUSED);
    assert_eq!(number, RMM_RS_LEASE_NONE);
    assert_eq!(c!(rmm_rs_lease_commit(cuda.0)), RMM_RS_REFUSED);
    assert_eq!(c!(rmm_rs_lease_detach(cuda.0)), RMM_RS_REFUSED);
    assert_eq!(c!(rmm_rs_lease_attach(cuda.0, 0, false)), RMM_RS_REFUSED);
    assert_eq!(put(&cuda, c"x", ptr::null(), 0), RMM_RS_REFUSED);
    assert_eq!(get(&cuda, c"x").map(drop), Err(RMM_RS_REFUSED));
    assert_eq!(c!(rmm_rs_lease_commit(ptr::null())), RMM_RS_INVALID_ARGUMENT);
    let leased = owner.connect(RMM_RS_LEASE_WRITE, 1000).expect("it is free");
    let none = ptr::null_mut();
    assert_eq!(c!(rmm_rs_lease_walk_names(leased.0, None, none)), RMM_RS_INVALID_ARGUMENT);
    let name = ptr::null();
    let status =
        c!(rmm_rs_lease_get(leased.0, name, none.cast(), none.cast(), none, 0, none.cast()));
    assert_eq!(status, RMM_RS_INVALID_ARGUMENT);
}
