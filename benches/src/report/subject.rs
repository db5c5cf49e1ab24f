//! A measured allocator, and which runner measured it.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Whose allocator it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// One of this repository.
    Ours,
    /// A peer: RMM, CUB, PyTorch or the driver.
    Peer,
}

/// An allocator, ordered as reports show them: ours first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReportSubject {
    /// Whose it is.
    pub runner: Runner,
    /// Its name in the rows.
    pub allocator: String,
}

impl ReportSubject {
    /// One of this repository.
    pub fn ours(allocator: &str) -> Self {
        Self { runner: Runner::Ours, allocator: allocator.to_owned() }
    }

    /// A peer: RMM, CUB, PyTorch or the driver.
    pub fn peer(allocator: &str) -> Self {
        Self { runner: Runner::Peer, allocator: allocator.to_owned() }
    }

    /// What readers know it as.
    pub fn label(&self) -> String {
        match (self.runner, self.allocator.as_str()) {
            (Runner::Ours, name) => format!("{name} (ours)"),
            (Runner::Peer, "cub") => "CUB".to_owned(),
            (Runner::Peer, "torch") => "PyTorch".to_owned(),
            (Runner::Peer, name) => format!("RMM {name}"),
        }
    }
}
