//! A tensor type that threads share: `cargo run -p rmm-rs --example shared_tensor`.
//!
//! Clones of a tensor share its memory, and one that is changed while it is shared is copied first.
//! Each thread has a stream of its own; the buffer orders them.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod device;

use std::sync::Arc;

use rmm::bytemuck::Pod;
use rmm::prelude::*;

#[derive(Clone, Copy, PartialEq, Debug)]
enum DType {
    U8,
    F32,
}

impl DType {
    fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F32 => 4,
        }
    }
}

#[derive(Clone, Debug)] // `Send + Sync + 'static`
struct Tensor {
    storage: Arc<DeviceBuffer>,
    shape: Vec<usize>,
    dtype: DType,
}

impl Tensor {
    fn zeros(
        shape: &[usize],
        dtype: DType,
        stream: &CudaStream,
        mr: &AnyResource,
    ) -> rmm::Result<Self> {
        let bytes = dtype.size() * shape.iter().product::<usize>();
        let storage = Arc::new(DeviceBuffer::zeroed_in(bytes, stream, mr)?);
        Ok(Self { storage, shape: shape.to_vec(), dtype })
    }

    /// Sets all elements. A storage that is shared is copied before.
    fn fill<T: Pod>(&mut self, value: T, stream: &CudaStream) -> rmm::Result<()> {
        if Arc::get_mut(&mut self.storage).is_none() {
            self.storage = Arc::new(self.storage.try_clone_on(stream)?);
        }
        let storage = Arc::get_mut(&mut self.storage).expect("the storage is not shared");
        storage.as_slice_mut().cast::<T>()?.fill_on(value, stream)
    }

    /// The elements, read on `stream`, which waits for the work of other streams on them.
    fn to_vec<T: Pod>(&self, stream: &CudaStream) -> rmm::Result<Vec<T>> {
        self.storage.as_slice().cast::<T>()?.to_vec_on(stream)
    }
}

fn main() -> rmm::Result<()> {
    let _device = device::open();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let mr: AnyResource = AnyResource::new(pool.clone());
    let stream = CudaStream::new()?;

    let mut weights = Tensor::zeros(&[64, 32], DType::F32, &stream, &mr)?;
    weights.fill(0.5f32, &stream)?; // enqueued only; the threads' streams wait for it
    let mask = Tensor::zeros(&[64], DType::U8, &stream, &mr)?;
    let threads: Vec<_> = (1..=3u8)
        .map(|i| {
            let (mine, mut changed) = (weights.clone(), weights.clone());
            std::thread::spawn(move || -> rmm::Result<(Vec<f32>, Tensor)> {
                let stream = CudaStream::new()?;
                changed.fill(f32::from(i), &stream)?; // copies the shared memory
                Ok((mine.to_vec(&stream)?, changed))
            })
        })
        .collect();
    for (i, thread) in (1..=3u8).zip(threads) {
        let (seen, changed) = thread.join().expect("the thread does not panic")?;
        assert_eq!(seen, [0.5; 64 * 32]);
        assert_eq!(changed.to_vec::<f32>(&stream)?, [f32::from(i); 64 * 32]);
    }
    println!("{weights:?}\n{mask:?}");
    assert_eq!((mask.shape.as_slice(), mask.to_vec::<u8>(&stream)?.len()), (&[64][..], 64));
    assert_eq!((mask.dtype, weights.dtype), (DType::U8, DType::F32));
    assert!(mask.to_vec::<[f32; 32]>(&stream).is_err(), "64 bytes are not a row of 32 floats");
    drop((weights, mask));
    assert_eq!((pool.statistics().allocations, pool.statistics().frees), (5, 5));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
