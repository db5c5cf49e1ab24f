//! The same work for each of several things, on a few threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What `work` returns for each item, in the order of the items; the first error, once all threads
/// have ended.
pub(super) fn map<T: Sync, R: Send, E: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<R, E>)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|&(index, _)| index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_error_is_returned() {
        let numbers: Vec<u32> = (0..100).collect();
        let squares = map(3, &numbers, |&n| Ok::<_, ()>(n * n)).expect("no error");
        assert!(squares.iter().copied().eq((0..100).map(|n| n * n)));
        assert_eq!(map(3, &numbers, |&n| if n > 7 { Err(n) } else { Ok(()) }), Err(8));
        assert_eq!(map(0, &[] as &[u32], |_| Ok::<u32, ()>(1)), Ok(Vec::new()));
    }
}
