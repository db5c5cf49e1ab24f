//! The driver's functions, by theme, with the names and signatures of the driver's symbols.

pub(crate) mod annotations;
mod arguments;
mod call;
mod capture;
mod context;
mod copy;
mod device;
mod event;
mod memory;
mod module;
mod pool;
mod pool_attributes;
mod pool_sharing;
mod sharing;
mod stream;
mod unsupported;
mod virtual_memory;

pub(crate) use capture::*;
pub(crate) use context::*;
pub(crate) use copy::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use memory::*;
pub(crate) use module::*;
pub(crate) use pool::*;
pub(crate) use pool_attributes::*;
pub(crate) use pool_sharing::*;
pub(crate) use sharing::*;
pub(crate) use stream::*;
pub(crate) use unsupported::*;
pub(crate) use virtual_memory::*;
