//! Bugs that were released in RMM and in CUB, and rules of our pool that were left out, each as an
//! allocator of a few lines: the software device detects it under every schedule, and reports
//! nothing for the allocator without it.

#[path = "known_bugs/context_events.rs"]
mod context_events;
#[path = "known_bugs/cross_class_free.rs"]
mod cross_class_free;
#[path = "known_bugs/dead_donor.rs"]
mod dead_donor;
#[path = "known_bugs/handle_reuse.rs"]
mod handle_reuse;
#[path = "known_bugs/harness.rs"]
mod harness;
#[path = "known_bugs/host_memory_freed_early.rs"]
mod host_memory_freed_early;
#[path = "known_bugs/legacy_generations.rs"]
mod legacy_generations;
#[path = "known_bugs/merge_without_record.rs"]
mod merge_without_record;
#[path = "known_bugs/merging_lists.rs"]
mod merging_lists;
#[path = "known_bugs/publish_before_record.rs"]
mod publish_before_record;
#[path = "known_bugs/sync_without_wait.rs"]
mod sync_without_wait;
#[path = "known_bugs/thread_exit.rs"]
mod thread_exit;
#[path = "known_bugs/unknown_handles.rs"]
mod unknown_handles;
