use rmm_adaptors::PoolMemoryResource;
use rmm_resources::CudaAsyncMemoryResource;

fn main() -> Result<(), rmm_core::Error> {
    let pool = {
        let upstream = CudaAsyncMemoryResource::new()?;
        PoolMemoryResource::builder(&upstream).build()?
    };
    drop(pool);
    Ok(())
}
