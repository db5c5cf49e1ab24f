//! Functions that a framework loads by address, and what it does not pass back: the live blocks.

mod blocks;
mod device;
pub mod ort;
pub mod torch;
