//! How to replay.

/// How recorded threads become threads of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadMode {
    /// One thread for each recorded thread, taking turns in the recorded order
    AsRecorded,
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// How often, the first time on a fresh resource.
    pub repeat: u32,
    /// Whether recorded threads become threads.
    pub threads: Option<ThreadMode>,
    /// Whether what was recorded on the default stream is replayed on the legacy default stream.
    pub legacy_stream: bool,
}

/// Once, on one thread and streams of its own.
impl Default for ReplayOptions {
    fn default() -> Self {
        Self { repeat: 1, threads: None, legacy_stream: false }
    }
}
