//! Amounts of memory.

/// The unit of memory: what devices map at once, and give to `cudaMalloc`.
pub const PAGE: u64 = 2 << 20;

/// An amount of memory as specifications write it.
pub(super) fn memory_text(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{}MiB", bytes >> 20) } else { bytes.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_that_are_no_mebibytes_are_bytes() {
        assert_eq!(memory_text(3 << 20), "3MiB");
        assert_eq!(memory_text(1_000_000), "1000000");
    }
}
