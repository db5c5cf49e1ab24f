//! Budgets: the memory that a pool may hold, in relation to what there is.

#![forbid(unsafe_code)]

mod available;

use std::path::Path;

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Device, Error};
use rmm_sys::CuDeviceAttribute;

use crate::capability::attribute;
use available::available;

const NAME: &str = "Budget";
/// Fractions are counted in millionths.
const ONE: u32 = 1_000_000;

/// A number of bytes in relation to the memory that there is, found out when it is asked for: a
/// pool's maximum that fits each machine. What is computed is a multiple of 256.
///
/// "Free" is what the process could have now:
///
/// | memory | free |
/// |---|---|
/// | of a device | as `cuMemGetInfo` says: of a MIG instance, that instance's |
/// | of an integrated device, which is the host's | as the host's |
/// | of the host | `MemAvailable`, and what the memory limits of the process's control groups leave |
///
/// `cuMemGetInfo` counts only idle pages of an integrated device, and not those which the system
/// would free at once: `MemAvailable` has both. Of what a control group has used, the page cache
/// that has not been used lately counts as free.
///
/// ```
/// use rmm_resources::Budget;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::Machine::builder().memory(1 << 30).enter();
/// assert_eq!(Budget::free_fraction(0.5).resolve()?, 512 << 20);
/// assert_eq!(Budget::free_except(1 << 20).resolve()?, 1023 << 20);
/// assert_eq!(Budget::bytes(1024).resolve()?, 1024);
/// assert_eq!(Budget::free_fraction(0.5).at_most(1 << 20).resolve()?, 1 << 20);
/// assert!(Budget::free_fraction(1.5).resolve().unwrap_err().is_invalid_argument());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    share: Share,
    /// Bytes that it never exceeds.
    most: u64,
}

/// This many bytes.
impl From<u64> for Budget {
    fn from(bytes: u64) -> Self {
        Self::bytes(bytes)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Share {
    Bytes(u64),
    /// Millionths of what is free; too many if the fraction was none.
    OfDevice(u32),
    OfDeviceExcept(u64),
    OfHost(u32),
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it lies between 0 and a million"
)]
fn millionths(fraction: f64) -> u32 {
    if (0.0..=1.0).contains(&fraction) {
        (fraction * f64::from(ONE)).round() as u32
    } else {
        u32::MAX
    }
}

impl Budget {
    fn of(share: Share) -> Self {
        Self { share, most: u64::MAX }
    }

    /// This many bytes, whatever there is.
    pub fn bytes(bytes: u64) -> Self {
        Self::of(Share::Bytes(bytes))
    }

    /// The same, but at most this many bytes.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> Self {
        Self { most: self.most.min(bytes), ..self }
    }

    /// A fraction, from 0 to 1, of the current device's free memory.
    #[doc(alias = "rmm::percent_of_free_device_memory")]
    pub fn free_fraction(fraction: f64) -> Self {
        Self::of(Share::OfDevice(millionths(fraction)))
    }

    /// The current device's free memory but for `bytes` bytes, which stay for others.
    pub fn free_except(bytes: u64) -> Self {
        Self::of(Share::OfDeviceExcept(bytes))
    }

    /// A fraction, from 0 to 1, of the host's free memory: for pools of pinned memory.
    pub fn host_fraction(fraction: f64) -> Self {
        Self::of(Share::OfHost(millionths(fraction)))
    }

    /// The bytes now.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if a fraction is not
    /// between 0 and 1; [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the system
    /// does not say how much host memory there is; else the driver's.
    pub fn resolve(self) -> Result<u64, Error> {
        self.resolve_in(Path::new("/"))
    }

    /// The bytes now, by the files of the system below `root`.
    fn resolve_in(self, root: &Path) -> Result<u64, Error> {
        let bytes = match self.share {
            Share::Bytes(bytes) => return Ok(bytes.min(self.most)),
            Share::OfDevice(part) => part_of(part, || free_of_device(root))?,
            Share::OfDeviceExcept(bytes) => free_of_device(root)?.saturating_sub(bytes),
            Share::OfHost(part) => part_of(part, || free_of_host(root))?,
        };
        Ok((bytes - bytes % CUDA_ALLOCATION_ALIGNMENT as u64).min(self.most))
    }
}

fn part_of(part: u32, free: impl FnOnce() -> Result<u64, Error>) -> Result<u64, Error> {
    if part > ONE {
        return Err(Error::invalid_argument(NAME, "a fraction is between 0 and 1"));
    }
    let share = u128::from(free()?) * u128::from(part) / u128::from(ONE);
    Ok(u64::try_from(share).expect("a part of 64 bits has no more"))
}

fn free_of_device(root: &Path) -> Result<u64, Error> {
    let info = Device::memory_info()?;
    let device = Device::current()?;
    if attribute(device, CuDeviceAttribute::INTEGRATED)? == 0 {
        return Ok(info.free);
    }
    // A system that says nothing leaves the driver's answer, which is too low.
    Ok(available(root).map_or(info.free, |bytes| bytes.min(info.total)))
}

fn free_of_host(root: &Path) -> Result<u64, Error> {
    let unknown = || Error::unsupported(NAME, "the system has no `/proc/meminfo`");
    available(root).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use rmm_sim::Machine;

    use super::available::tests::{MACHINE, Root};
    use super::*;

    #[test]
    fn a_fraction_is_of_what_is_free_when_it_is_asked_for() {
        let _machine = Machine::builder().memory(1 << 30).enter();
        let budget = Budget::free_fraction(0.9);
        let free = Device::memory_info().expect("a device").free;
        let share = u64::try_from(u128::from(free) * 9 / 10).expect("it is less") / 256 * 256;
        assert_eq!(budget.resolve().expect("a budget"), share);
        assert_eq!(Budget::free_except(u64::MAX).resolve().expect("a budget"), 0);
    }

    #[test]
    fn an_integrated_device_has_the_memory_of_the_host() {
        let root = Root::new(&[("proc/meminfo", MACHINE)]);
        let discrete = Machine::builder().memory(1 << 30).build();
        let integrated = Machine::builder().memory(1 << 30);
        let integrated = integrated.attribute(CuDeviceAttribute::INTEGRATED, 1).build();
        let half = |machine: &Machine| {
            let _entered = machine.enter();
            Budget::free_fraction(0.5).resolve_in(root.path()).expect("a budget")
        };
        assert_eq!((half(&discrete), half(&integrated)), (512 << 20, 300 << 20));
        let _entered = integrated.enter();
        let all = |root: &Root| Budget::host_fraction(1.0).resolve_in(root.path());
        assert_eq!(all(&root).expect("a budget"), 600 << 20);
        let none = Root::new(&[]);
        assert!(all(&none).unwrap_err().is_unsupported());
        let of_driver = Budget::free_fraction(1.0).resolve_in(none.path());
        assert_eq!(of_driver.expect("a budget"), 1 << 30);
    }

    #[test]
    fn what_is_no_fraction_is_refused() {
        let _machine = rmm_sim::enter();
        for fraction in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            for budget in [Budget::free_fraction(fraction), Budget::host_fraction(fraction)] {
                assert!(budget.resolve().unwrap_err().is_invalid_argument(), "{fraction}");
            }
        }
    }
}
