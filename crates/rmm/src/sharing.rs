//! Device memory that leaves the process: exported as handles of the driver, and mapped from those
//! of other processes.
//!
//! The guide `docs/sharing-memory.md` has a program.

pub use rmm_containers::export;
pub use rmm_resources::{
    Export, ImportAccess, ImportedMemory, Piece, PieceRange, ShareableHandle, export_range,
};
