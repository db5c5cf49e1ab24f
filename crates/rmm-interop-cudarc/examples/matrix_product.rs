//! A matrix product by cuBLAS and a kernel of its own from PTX, on two streams: with the memory of
//! a pool, and with cudarc's own slices. Needs a GPU and cuBLAS.
//!
//! ```sh
//! cargo run --release -p rmm-interop-cudarc --features checked-alone --example matrix_product
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{CudaContext, CudaFunction, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use cudarc_0_19 as cudarc;
use rmm_adaptors::PoolMemoryResource;
use rmm_containers::DeviceUVector;
use rmm_interop_cudarc::{Lend, LendMut, Stream};
use rmm_resources::CudaMemoryResource;

const PTX: &str = include_str!("../tests/saxpy.ptx");
/// Rows and columns of the matrices.
const SIDE: usize = 64;
const COUNT: usize = SIDE * SIDE;
const ROUNDS: u32 = 2_000;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

struct Program {
    context: Arc<CudaContext>,
    saxpy: CudaFunction,
    upload: Stream,
    compute: Stream,
    blas: CudaBlas,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Program {
    fn new() -> Outcome<Self> {
        let context = CudaContext::new(0)?;
        let saxpy = context.load_module(Ptx::from_src(PTX))?.load_function("saxpy")?;
        // SAFETY: the program captures no graph.
        let stream = || Ok::<_, Box<dyn Error>>(unsafe { Stream::adopt(&context.new_stream()?) }?);
        let (upload, compute) = (stream()?, stream()?);
        let blas = CudaBlas::new(Arc::clone(&compute))?;
        let matrix = |step: usize| (0..COUNT).map(|i| small(i * step % 7)).collect();
        let (a, b) = (matrix(1), matrix(3));
        Ok(Self { context, saxpy, upload, compute, blas, a, b })
    }

    fn gemm() -> GemmConfig<f32> {
        let side = i32::try_from(SIDE).expect("it is small");
        GemmConfig {
            transa: CUBLAS_OP_N,
            transb: CUBLAS_OP_N,
            m: side,
            n: side,
            k: side,
            alpha: 1.0,
            lda: side,
            ldb: side,
            beta: 0.0,
            ldc: side,
        }
    }

    /// `c = a * b + 2 * a`, in the memory of the pool: uploaded on one stream, computed on another.
    fn with_pool(&self, pool: &PoolMemoryResource) -> Outcome<Vec<f32>> {
        let (upload, compute) = (&self.upload, &self.compute);
        let a = DeviceUVector::from_slice_in(&self.a, upload, pool)?;
        let b = DeviceUVector::from_slice_in(&self.b, upload, pool)?;
        let mut c = DeviceUVector::<f32>::uninit_in(COUNT, compute, pool)?;
        let (left, right) = (a.lend(compute)?, b.lend(compute)?); // `compute` waits for `upload`
        // SAFETY: all three have `SIDE` rows and columns.
        unsafe { self.blas.gemm(Self::gemm(), &left, &right, &mut c.lend_mut(compute)?) }?;
        let config = LaunchConfig::for_num_elems(u32::try_from(COUNT)?);
        let mut launch = compute.launch_builder(&self.saxpy);
        let target = c.lend_mut(compute)?;
        // SAFETY: these are the kernel's parameters; both matrices have `COUNT` elements.
        unsafe { launch.arg(&target).arg(&left).arg(&2.0_f32).arg(&COUNT).launch(config) }?;
        drop(target);
        Ok(compute.clone_dtoh(&c.lend(compute)?)?)
    }

    /// The same with slices of cudarc's.
    fn with_slices(&self) -> Outcome<Vec<f32>> {
        let (upload, compute) = (&self.upload, &self.compute);
        let (a, b) = (upload.clone_htod(&self.a)?, upload.clone_htod(&self.b)?);
        // SAFETY: cuBLAS writes all of it.
        let mut c = unsafe { compute.alloc::<f32>(COUNT) }?;
        if !self.context.is_event_tracking() {
            compute.join(upload)?;
        }
        // SAFETY: all three have `SIDE` rows and columns.
        unsafe { self.blas.gemm(Self::gemm(), &a, &b, &mut c) }?;
        let config = LaunchConfig::for_num_elems(u32::try_from(COUNT)?);
        let mut launch = compute.launch_builder(&self.saxpy);
        // SAFETY: these are the kernel's parameters; both matrices have `COUNT` elements.
        unsafe { launch.arg(&mut c).arg(&a).arg(&2.0_f32).arg(&COUNT).launch(config) }?;
        let result = compute.clone_dtoh(&c)?;
        if !self.context.is_event_tracking() {
            upload.join(compute)?; // the slices are freed there
        }
        Ok(result)
    }

    /// The result, computed here.
    fn expected(&self) -> Vec<f32> {
        let entry = |i: usize| {
            let (row, column) = (i % SIDE, i / SIDE); // cuBLAS's matrices are in columns
            let terms = (0..SIDE).map(|k| self.a[k * SIDE + row] * self.b[column * SIDE + k]);
            terms.sum::<f32>() + 2.0 * self.a[i]
        };
        (0..COUNT).map(entry).collect()
    }
}

fn small(number: usize) -> f32 {
    f32::from(u8::try_from(number).expect("it is below 256"))
}

fn time(work: impl Fn() -> Outcome<Vec<f32>>, expected: &[f32]) -> Outcome<Duration> {
    for _ in 0..ROUNDS / 10 {
        assert_eq!(work()?, expected);
    }
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        work()?;
    }
    Ok(begin.elapsed() / ROUNDS)
}

fn main() -> Outcome {
    let program = Program::new()?;
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    let expected = program.expected();
    println!("{SIDE} x {SIDE}: upload twice, multiply, add, download");
    println!(
        "  memory of the pool:             {:?}",
        time(|| program.with_pool(&pool), &expected)?
    );
    println!("  cudarc's slices, tracked:       {:?}", time(|| program.with_slices(), &expected)?);
    // SAFETY: from here on, the program orders its streams by itself.
    unsafe { program.context.disable_event_tracking() };
    println!(
        "  the pool, nothing tracked:      {:?}",
        time(|| program.with_pool(&pool), &expected)?
    );
    println!(
        "  cudarc's slices, nothing tracked: {:?}",
        time(|| program.with_slices(), &expected)?
    );
    Ok(())
}
