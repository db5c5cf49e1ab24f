//! Frameworks that free by pointer alone: the functions of clients, those that a framework loads by
//! address, and the table of all their live blocks.

pub mod client;
mod device;
pub mod ort;
pub mod torch;
