//! Functions that a framework loads by address, and the table of its live blocks: the resource that
//! each came from, its device, and the streams that were recorded for it.

mod blocks;
mod device;
pub mod ort;
pub mod torch;
