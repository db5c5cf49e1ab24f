//! The program on the repository's first page: `cargo run -p rmm-rs --example first`, with a GPU,
//! or with `RMM_CUDA_LIBRARY` as that page has it.

use rmm::prelude::*;

fn main() -> rmm::Result<()> {
    let pool = rmm::default_pool()?; // suballocates virtual memory, or cudaMalloc where there is none
    let stream = CudaStream::new()?;

    let host = vec![1.0_f32; 1 << 20];
    let mut x = DeviceUVector::from_slice_in(&host, &stream, &pool)?; // copies to the device
    x.set_element_async(0, 3.0)?; // or a kernel of yours, on `stream`
    assert_eq!(x.to_vec()?[..2], [3.0, 1.0]); // copies back, and synchronizes `stream`
    Ok(())
} // x is freed in stream order; the pool waits for the device, then frees its own memory

#[test]
fn it_runs() {
    let _machine = rmm_sim::Machine::new().enter_all_threads();
    main().expect("it runs");
}

#[test]
fn it_is_what_the_first_page_shows() {
    let page = include_str!("../../../README.md");
    let program = include_str!("first.rs");
    let program = program.split_once("\n\n").and_then(|(_, rest)| rest.split_once("\n#[test]"));
    let (program, _) = program.expect("the program stands between its comment and its tests");
    assert!(page.contains(&format!("```rust\n{program}```")), "README.md has another program");
}
