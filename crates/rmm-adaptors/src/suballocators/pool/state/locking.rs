//! The pool's lock, and who waits for it.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::{hint, thread};

use rmm_core::fork;

use super::pool_state::PoolState;
use crate::sync::cache_padded::CachePadded;

/// How often a thread tries to take a lock that it found taken before it sleeps until it is free.
const ATTEMPTS: u32 = 24;

/// The same for a thread that does not sleep, but goes on without the lock: some 40 us.
const FEW_ATTEMPTS: u32 = 8;

/// Upper bound on the turns of a loop between two attempts, some 20 us. Short pauses take the cache
/// line of the lock from its holder, and sleeping costs it a system call: with sixteen threads that
/// extend a pool 1.2 million calls a second became 2.0 (H100).
const LONGEST_SPIN: u32 = 512;

/// How often a thread yields to others that wait for the lock: longer than one takes to wake up.
const PATIENCE: usize = 256;

/// Threads that find the lock taken.
#[derive(Debug, Default)]
struct Waiters {
    /// How many have, so far.
    waits: AtomicU64,
    /// How many wait now.
    waiting: AtomicU32,
    /// Requests with a deadline that wait for the device now, most of the time without the lock.
    patient: AtomicU32,
    /// Requests that have failed so far.
    failed: AtomicU64,
}

/// A request with a deadline that waits for the device.
#[derive(Debug)]
pub(crate) struct Patient<'p>(&'p AtomicU32);

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The lock of a pool's state.
#[derive(Debug)]
pub(crate) struct PoolLock {
    /// On its own cache line: the lock word changes on every call that misses the caches, and the
    /// fields beside it are read on every call.
    state: CachePadded<Mutex<PoolState>>,
    /// On its own cache line, too: hits read the fields beside it.
    waiters: CachePadded<Waiters>,
}

impl PoolLock {
    pub(crate) fn new(state: PoolState) -> Self {
        Self { state: CachePadded(Mutex::new(state)), waiters: CachePadded::default() }
    }

    /// Takes the lock. A poisoned lock is used all the same: the state is whole between its steps,
    /// and an allocator has to go on in `Drop`.
    pub(crate) fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.try_lock().unwrap_or_else(|| self.wait_for_lock())
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, PoolState>> {
        match self.state.0.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    fn wait_for_lock(&self) -> MutexGuard<'_, PoolState> {
        let Waiters { waits, waiting, .. } = &self.waiters.0;
        waits.fetch_add(1, Ordering::Relaxed);
        waiting.fetch_add(1, Ordering::Relaxed);
        let state = (0..ATTEMPTS).find_map(|attempt| {
            (0..LONGEST_SPIN.min(4_u32 << attempt)).for_each(|_| hint::spin_loop());
            self.try_lock()
        });
        let state = state.unwrap_or_else(|| fork::lock(&self.state.0));
        waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Takes the lock if it is free, or will be within some tens of microseconds. The thread never
    /// sleeps for it.
    pub(crate) fn lock_soon(&self) -> Option<MutexGuard<'_, PoolState>> {
        self.try_lock().or_else(|| self.spin_for_lock(FEW_ATTEMPTS))
    }

    fn spin_for_lock(&self, attempts: u32) -> Option<MutexGuard<'_, PoolState>> {
        let Waiters { waits, waiting, .. } = &self.waiters.0;
        waits.fetch_add(1, Ordering::Relaxed);
        waiting.fetch_add(1, Ordering::Relaxed);
        let state = (0..attempts).find_map(|attempt| {
            (0..LONGEST_SPIN.min(4_u32 << attempt)).for_each(|_| hint::spin_loop());
            self.try_lock()
        });
        waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Counts a request with a deadline that waits for the device, while the result lives.
    pub(crate) fn be_patient(&self) -> Patient<'_> {
        let Waiters { patient, .. } = &self.waiters.0;
        patient.fetch_add(1, Ordering::Relaxed);
        Patient(patient)
    }

    /// How many requests with a deadline wait for the device now.
    pub(crate) fn patient(&self) -> u32 {
        self.waiters.0.patient.load(Ordering::Relaxed)
    }

    /// Counts a request that has failed. It has waited long enough to need no lock for that.
    pub(crate) fn note_failed(&self) {
        self.waiters.0.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests have failed so far.
    pub(crate) fn failed(&self) -> u64 {
        self.waiters.0.failed.load(Ordering::Relaxed)
    }

    /// How often a thread has found the lock taken so far.
    pub(crate) fn waits(&self) -> u64 {
        self.waiters.0.waits.load(Ordering::Relaxed)
    }

    /// Whether another thread waits for the lock.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiters.0.waiting.load(Ordering::Relaxed) > 0
    }

    /// Gives threads that wait for the lock the time to take it, in the middle of long work. The
    /// caller has released it: a mutex alone would mostly go to the caller again.
    pub(crate) fn let_others_in(&self) {
        for _ in 0..PATIENCE {
            if !self.is_waited_for() {
                break;
            }
            thread::yield_now();
        }
    }
}
