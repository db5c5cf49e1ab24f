//! The pool of the process.

#![forbid(unsafe_code)]

use std::env;
use std::sync::OnceLock;

use rmm_adaptors::{PoolMemoryResource, PoolStatistics};
use rmm_core::{AnyResource, Error};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};

/// What the pool is over: `cuda` or `vmm`.
const VARIABLE: &str = "POOL";

/// The pool, and its counters. Its resource is type-erased, as the parts of a program hold it.
pub(crate) struct Pool {
    resource: AnyResource,
    counters: Box<dyn Fn() -> PoolStatistics + Send + Sync>,
}

static POOL: OnceLock<Pool> = OnceLock::new();

/// The pool of this process, on the device that was current when it was first asked for. It starts
/// empty and is never dropped.
pub(crate) fn pool() -> Result<&'static Pool, Error> {
    if let Some(pool) = POOL.get() {
        return Ok(pool);
    }
    // Of two threads that come first, one keeps its pool; the other's holds nothing yet.
    let made = Pool::make(env::var(VARIABLE).ok().as_deref())?;
    Ok(POOL.get_or_init(|| made))
}

impl Pool {
    fn make(over: Option<&str>) -> Result<Self, Error> {
        match over {
            None | Some("cuda") => {
                let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
                let same = pool.clone();
                let counters = Box::new(move || same.statistics());
                Ok(Self { resource: AnyResource::new(pool), counters })
            }
            Some("vmm") => {
                let pool = PoolMemoryResource::builder(VirtualMemoryResource::new()?).build()?;
                let same = pool.clone();
                let counters = Box::new(move || same.statistics());
                Ok(Self { resource: AnyResource::new(pool), counters })
            }
            Some(other) => {
                let why = format!("{VARIABLE} is {other:?}; expected cuda or vmm");
                Err(Error::invalid_argument("rmm_torch", why))
            }
        }
    }

    pub(crate) fn resource(&self) -> &AnyResource {
        &self.resource
    }

    pub(crate) fn statistics(&self) -> PoolStatistics {
        (self.counters)()
    }
}
