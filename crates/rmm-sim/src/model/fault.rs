//! Faults: driver calls that are made to fail before they have any effect.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::model::schedule::Random;

/// A rule by which driver calls fail. Calls are counted from 1, starting when the fault is
/// [added](crate::Machine::fail) to the machine.
///
/// ```
/// use rmm_sim::{Fault, Machine};
/// use rmm_sys::CuResult;
///
/// let machine = rmm_sim::enter();
/// machine.fail(Fault::nth("cuInit", 2, CuResult::OUT_OF_MEMORY));
/// let driver = rmm_sim::driver();
/// // SAFETY: `cuInit` takes no pointer.
/// assert_eq!(unsafe { driver.cuInit(0) }, CuResult::SUCCESS);
/// // SAFETY: as above.
/// assert_eq!(unsafe { driver.cuInit(0) }, CuResult::OUT_OF_MEMORY);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    name: Option<String>,
    rule: Rule,
    code: CuResult,
    seen: u64,
}

#[derive(Clone, Debug)]
enum Rule {
    Nth(u64),
    FromNth(u64),
    Probability(f64, Random),
    /// Allocations of more bytes than this.
    Above(usize),
}

/// The fault rules of a machine, and the calls that they made fail.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) rules: Vec<Fault>,
    /// The number of callers that have suspended all faults.
    pub(crate) suspended: u32,
    /// The calls that were made to fail.
    pub(crate) failed_calls: Vec<&'static str>,
}

impl Faults {
    /// Counts a call, and fails it if a rule applies.
    ///
    /// # Errors
    /// The code that it fails with, if it does.
    pub(crate) fn check(&mut self, name: &'static str) -> Result<(), CuResult> {
        self.fail(name, |fault| fault.strikes(name))
    }

    /// Fails an allocation within a call if a rule applies.
    ///
    /// # Errors
    /// The code that it fails with, if it does.
    pub(crate) fn check_allocation(
        &mut self,
        name: &'static str,
        bytes: usize,
    ) -> Result<(), CuResult> {
        self.fail(name, |fault| match fault.rule {
            Rule::Above(most) if bytes > most => Some(fault.code),
            _ => None,
        })
    }

    fn fail(
        &mut self,
        name: &'static str,
        strikes: impl FnMut(&mut Fault) -> Option<CuResult>,
    ) -> Result<(), CuResult> {
        if self.suspended > 0 {
            return Ok(());
        }
        // Every rule counts every call, even if another rule fails it.
        let codes: Vec<CuResult> = self.rules.iter_mut().filter_map(strikes).collect();
        match codes.first() {
            Some(&code) => {
                self.failed_calls.push(name);
                Err(code)
            }
            None => Ok(()),
        }
    }
}

impl Fault {
    /// The `n`-th call of the function `name` (the symbol, such as `"cuMemAlloc_v2"`) returns
    /// `code`.
    pub fn nth(name: &str, n: u64, code: CuResult) -> Self {
        Self::new(Some(name), Rule::Nth(n), code)
    }

    /// The `n`-th and every later call of the function `name` returns `code`.
    pub fn from_nth(name: &str, n: u64, code: CuResult) -> Self {
        Self::new(Some(name), Rule::FromNth(n), code)
    }

    /// The `n`-th call of any function returns `code`.
    pub fn any_call(n: u64, code: CuResult) -> Self {
        Self::new(None, Rule::Nth(n), code)
    }

    /// Each call of the function `name` returns `code` with probability `p`, drawn from `seed`.
    pub fn probability(name: &str, p: f64, seed: u64, code: CuResult) -> Self {
        Self::new(Some(name), Rule::Probability(p, Random::new(seed)), code)
    }

    /// Allocations of more than `bytes` bytes, of any kind of memory, return `OUT_OF_MEMORY`.
    pub fn out_of_memory_above(bytes: usize) -> Self {
        Self::new(None, Rule::Above(bytes), CuResult::OUT_OF_MEMORY)
    }

    /// The device is lost, as after a kernel accessed an illegal address: the `n`-th and every
    /// later call of any function returns `ILLEGAL_ADDRESS`.
    #[doc(alias = "sticky error")]
    pub fn device_lost(n: u64) -> Self {
        Self::new(None, Rule::FromNth(n), CuResult::ILLEGAL_ADDRESS)
    }

    fn new(name: Option<&str>, rule: Rule, code: CuResult) -> Self {
        Self { name: name.map(str::to_owned), rule, code, seen: 0 }
    }

    /// Counts a call of `name`; returns the code that it fails with, if the rule applies.
    fn strikes(&mut self, name: &str) -> Option<CuResult> {
        if self.name.as_deref().is_some_and(|only| only != name) {
            return None;
        }
        self.seen += 1;
        let strikes = match &mut self.rule {
            Rule::Nth(n) => self.seen == *n,
            Rule::FromNth(n) => self.seen >= *n,
            Rule::Probability(p, random) => random.fraction() < *p,
            Rule::Above(_) => false,
        };
        strikes.then_some(self.code)
    }
}
