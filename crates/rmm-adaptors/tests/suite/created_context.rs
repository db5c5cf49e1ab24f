//! A pool in a context that is not its device's primary one (`cuCtxCreate`).

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{Context, CudaStream, Device, Resource};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{create_context, destroy_context};
use rmm_sys::{CuContext, CuDevice, CuResult};

use crate::support::{MIB, free, layout, stream, write};

#[test]
fn a_pool_serves_the_context_in_which_it_was_built() {
    rmm_sim::check(|machine| {
        let primary_stream = stream();
        let primary = Context::current().expect("a context");
        let mut created = CuContext::NULL;
        // SAFETY: `created` is valid for a write.
        let code = unsafe { create_context(&raw mut created, 0, CuDevice(0)) };
        assert_eq!(code, CuResult::SUCCESS);
        let own = Context::current().expect("the created context is current");
        assert_ne!(own, primary);
        assert_eq!(Device::current().expect("a device").ordinal(), 0);
        {
            let pool =
                PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
            let (first, second) = (stream(), stream());
            let block = pool.allocate(&first, layout(MIB)).expect("there is memory");
            write(machine, &first, block, 1);
            free(&pool, &first, block, MIB);
            // The second stream gets the block in order, and the default one of the context too.
            let legacy = CudaStream::legacy();
            for stream in [&second, &legacy] {
                let block = pool.allocate(stream, layout(MIB)).expect("there is memory");
                write(machine, stream, block, 2);
                free(&pool, stream, block, MIB);
            }
            let refused = pool.allocate(&primary_stream, layout(MIB)).expect_err("another context");
            assert!(refused.to_string().contains("cuCtxCreate"), "{refused}");
            // It enters its context by itself.
            let _primary_is_current = primary.enter().expect("it exists");
            let block = pool.allocate(&first, layout(MIB)).expect("there is memory");
            free(&pool, &first, block, MIB);
        }
        assert_eq!(destroy_context(created), CuResult::SUCCESS);
    });
}
