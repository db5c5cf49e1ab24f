//! The software device, seen through the driver's table as a program sees it.
#![cfg(unix)]

#[macro_use]
mod common;

mod attribute;
mod background;
mod capture;
mod checker;
mod checks;
mod contexts;
mod copies;
mod created_contexts;
mod events;
mod faults;
mod host_pools;
mod host_virtual_memory;
mod implicit_order;
mod kernels;
mod mapped;
mod memory;
mod names;
mod nothing;
mod peers;
mod pool_devices;
mod pool_sharing;
mod pools;
mod prefetches;
mod processes;
mod registrations;
mod sharing;
mod streams;
mod suspended;
mod threads;
mod times;
mod virtual_memory;
mod virtual_memory_order;
