//! How an allocation, a free, a trim or sleep is done: the steps, and what decides between them.

pub(super) mod allocate;
pub(super) mod checkpoint;
pub(super) mod clear;
pub(super) mod close;
pub(super) mod extents;
pub(super) mod free;
pub(super) mod graphs;
pub(super) mod grow;
pub(super) mod ladder;
pub(super) mod outlook;
pub(super) mod pressure;
pub(super) mod refill;
pub(super) mod refusal;
pub(super) mod relief;
pub(super) mod remedies;
pub(super) mod segments;
pub(super) mod shrink;
pub(super) mod sleep;
pub(super) mod spans;
pub(super) mod streams;
