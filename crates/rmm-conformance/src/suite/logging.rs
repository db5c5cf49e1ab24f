//! The log of a resource.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rmm_adaptors::{LOG_HEADER, LoggingResourceAdaptor};
use rmm_core::Resource;

use crate::failure::ensure;
use crate::{CheckResult, CheckedBlock, Failure, Random, Subject};

/// A writer whose text can be read.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A logged resource serves as it did, and its log begins with the header, names each allocation
/// with its size and stream, and has a free for each before the address is allocated again.
///
/// # Errors
/// What is wrong.
pub fn logs_name_each_allocation_and_its_free<R: Resource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    const ALLOCATIONS: usize = 60;
    let text = Text::default();
    let logged = LoggingResourceAdaptor::to_writer(subject.resource(), text.clone())?;
    let errors = subject.counter()?;
    let mut random = Random::new(11);
    let mut live: Vec<(CheckedBlock<'_, _>, u32)> = Vec::new();
    for _ in 0..ALLOCATIONS {
        let words = 1 + random.below(4096);
        let block = CheckedBlock::allocate(&logged, subject.kernels(), subject.stream(), words)?;
        block.fill(words, 0)?;
        live.push((block, words));
        if random.below(2) == 0 {
            let (block, words) = live.swap_remove(random.index(live.len()));
            block.check(words, &errors)?;
        }
    }
    drop(live);
    errors.expect_none(subject.stream(), "a logged resource gave bad memory")?;
    logged.flush()?;
    ensure(logged.lost_lines() == 0, || "lines were lost".into())?;

    let text = text.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = String::from_utf8(text).map_err(Failure::new)?;
    let frees = pair_up(&text)?;
    ensure(frees == ALLOCATIONS, || format!("{frees} of {ALLOCATIONS} allocations were logged"))
}

/// Pairs each allocation of a log with its free, and counts the pairs.
fn pair_up(text: &str) -> Result<usize, Failure> {
    let mut lines = text.lines();
    ensure(lines.next() == Some(LOG_HEADER), || format!("no header: {text}"))?;
    let mut live = HashMap::new();
    let mut frees = 0;
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let &[_thread, _time, action, pointer, size, stream] = fields.as_slice() else {
            return Err(Failure::new(format!("not six fields: {line}")));
        };
        match action {
            "allocate" => {
                let before = live.insert(pointer.to_owned(), (size.to_owned(), stream.to_owned()));
                ensure(before.is_none(), || format!("allocated while live: {line}"))?;
            }
            "free" => {
                frees += 1;
                let allocated = live.remove(pointer);
                ensure(allocated == Some((size.to_owned(), stream.to_owned())), || {
                    format!("freed other than allocated, as {allocated:?}: {line}")
                })?;
            }
            _ => return Err(Failure::new(format!("an unknown action: {line}"))),
        }
    }
    ensure(live.is_empty(), || format!("never freed: {live:?}"))?;
    Ok(frees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> String {
        let rows = lines.iter().map(|line| format!("1,00:00:00.000000,{line}\n"));
        std::iter::once(format!("{LOG_HEADER}\n")).chain(rows).collect()
    }

    #[test]
    fn a_log_pairs_up_only_if_each_allocation_has_its_free() {
        let (allocate, free) = ("allocate,0x100,16,0x2", "free,0x100,16,0x2");
        assert_eq!(pair_up(&log(&[allocate, free, allocate, free])), Ok(2));
        let bad: &[(&[&str], &str)] = &[
            (&[allocate], "never freed"),
            (&[free], "other than allocated"),
            (&[allocate, allocate, free, free], "allocated while live"),
            (&[allocate, "free,0x100,17,0x2"], "other than allocated"),
            (&[allocate, "free,0x100,16,0x1"], "other than allocated"),
            (&["resize,0x100,16,0x2"], "unknown action"),
            (&["allocate,0x100,16"], "six fields"),
        ];
        for (lines, what) in bad {
            let failure = pair_up(&log(lines)).unwrap_err().to_string();
            assert!(failure.contains(what), "{lines:?}: {failure}");
        }
        assert!(pair_up(allocate).is_err(), "a log without a header passed");
    }
}
