//! For cudarc 0.19: see the crate's page.

use ::cudarc_0_19 as cudarc;

#[path = "line/lend.rs"]
mod lend;
#[path = "line/lend_host.rs"]
mod lend_host;
#[path = "line/lent.rs"]
mod lent;
#[path = "line/owned_slice.rs"]
mod owned_slice;
#[path = "line/stream.rs"]
mod stream;

pub use lend::{Lend, LendMut};
pub use lend_host::{LendHost, LentHost};
pub use lent::Lent;
pub use owned_slice::OwnedSlice;
pub use stream::Stream;
