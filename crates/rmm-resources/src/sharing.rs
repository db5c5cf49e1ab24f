//! Device memory that leaves the process: exported as handles, and mapped from those of others.

mod exported;
mod imported;
mod piece;

pub use exported::{Export, export_range};
pub use imported::{ImportAccess, ImportedMemory};
pub use piece::{Piece, PieceRange, ShareableHandle};

/// The name of exports and imports in errors.
pub(crate) const NAME: &str = "export";
