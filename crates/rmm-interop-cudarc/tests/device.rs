//! A program of cudarc's on the pool, with a kernel of its own from PTX: on a GPU with
//! `RMM_DRIVER=cuda`, else on the software device, where the kernel is registered in Rust.
//! `cargo xtask test-gpu` runs it on each GPU, whose number is in `RMM_TEST_DEVICE`.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaFunction, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use cudarc_0_19 as cudarc;
use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_interop_cudarc::{Lend, LendHost, LendMut, OwnedSlice, Stream};
use rmm_resources::CudaMemoryResource;

const PTX: &str = include_str!("saxpy.ptx");
const LEN: u32 = 1 << 16;
const COUNT: usize = LEN as usize;

/// Runs a program on the device that `RMM_DRIVER` selects.
fn on_device(program: impl Fn(&Arc<CudaContext>, &CudaFunction) -> Result<(), Box<dyn Error>>) {
    let run = || {
        let context = CudaContext::new(ordinal()).expect("there is a device");
        let module = context.load_module(Ptx::from_src(PTX)).expect("the kernel compiles");
        let saxpy = module.load_function("saxpy").expect("it is in the module");
        program(&context, &saxpy).expect("the program runs");
    };
    if std::env::var("RMM_DRIVER").is_ok_and(|driver| driver == "cuda") {
        return run();
    }
    rmm_sim_cuda::load().expect("there is no other driver");
    rmm_sim::check(|machine| {
        machine.kernel("saxpy", "float y[n], const float x[n], float a, size_t n", |call| {
            let (a, x, y) = (call.value("a"), call.read::<f32>("x")?, call.read::<f32>("y")?);
            let sums: Vec<f32> = y.iter().zip(x).map(|(y, x)| x.mul_add(a, *y)).collect();
            call.write("y", &sums)
        });
        run();
    });
}

/// The device's number with the driver.
fn ordinal() -> usize {
    let wish = std::env::var("RMM_TEST_DEVICE");
    wish.map_or(0, |ordinal| ordinal.parse().expect("RMM_TEST_DEVICE is a number"))
}

fn stream(context: &Arc<CudaContext>) -> Result<Stream, Box<dyn Error>> {
    // SAFETY: the stream is not captured.
    Ok(unsafe { Stream::adopt(&context.new_stream()?) }?)
}

fn pool() -> Result<PoolMemoryResource, rmm_core::Error> {
    PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(64 << 20).build()
}

#[test]
fn two_streams_and_a_kernel_give_the_right_result() {
    on_device(|context, saxpy| {
        let (upload, compute, pool) = (stream(context)?, stream(context)?, pool()?);
        let host: Vec<f32> =
            (0..LEN).map(|i| f32::from(u8::try_from(i % 250).expect("it fits"))).collect();
        let pinned = PinnedVec::from_slice(&host)?;
        let mut y = DeviceUVector::<f32>::zeroed_in(COUNT, &compute, &pool)?;
        for round in 0..4_u8 {
            let mut x = DeviceUVector::<f32>::uninit_in(COUNT, &upload, &pool)?;
            upload.memcpy_htod(&pinned.lend(&upload)?, &mut x.lend_mut(&upload)?)?;
            let (a, config) = (f32::from(round), LaunchConfig::for_num_elems(LEN));
            let mut launch = compute.launch_builder(saxpy);
            let (y, x) = (y.lend_mut(&compute)?, x.lend(&compute)?);
            // SAFETY: these are the kernel's parameters; both vectors have `COUNT` elements.
            unsafe { launch.arg(&y).arg(&x).arg(&a).arg(&COUNT).launch(config) }?;
        } // `x` is freed on `upload`, which waits for the kernel
        let expected: Vec<f32> = host.iter().map(|x| 6.0 * x).collect();
        assert_eq!(compute.clone_dtoh(&y.lend(&compute)?)?, expected);
        Ok(())
    });
}

#[test]
fn a_slice_in_our_memory_is_one_of_cudarcs() {
    on_device(|context, saxpy| {
        let (s, pool) = (stream(context)?, pool()?);
        let x = s.clone_htod(&[2.0_f32; 1000])?;
        let vector = DeviceUVector::filled_in(1.0_f32, 1000, &s, &pool)?;
        // SAFETY: it is used on one stream.
        let mut y = unsafe { OwnedSlice::new(vector, &s) }?;
        let (n, config) = (1000_usize, LaunchConfig::for_num_elems(1000));
        // SAFETY: these are the kernel's parameters.
        unsafe {
            s.launch_builder(saxpy).arg(&mut y).arg(&x).arg(&3.0_f32).arg(&n).launch(config)
        }?;
        assert_eq!(s.clone_dtoh(&*y)?, [7.0; 1000]);
        Ok(())
    });
}

/// Also before the device was waited for: cudarc frees in the driver's default pool. On a GPU
/// nothing else may hold its memory, so there the check runs only where `RMM_WHOLE_DEVICE` is set.
#[test]
fn what_slices_of_cudarcs_have_left_is_had_by_a_pool() {
    let is_on_gpu = std::env::var_os("RMM_DRIVER").is_some();
    if is_on_gpu && std::env::var_os("RMM_WHOLE_DEVICE").is_none() {
        return;
    }
    on_device(|context, _| {
        let (s, pool) = (context.new_stream()?, pool()?);
        let free = usize::try_from(rmm_core::Device::memory_info()?.free)?;
        // SAFETY: the elements are not read.
        drop(unsafe { s.alloc::<u8>(free / 10 * 7) }?);
        let wanted = free / 10 * 6;
        let vector = DeviceUVector::<u8>::uninit_in(wanted, &stream(context)?, &pool)?;
        assert_eq!(vector.len(), wanted);
        Ok(())
    });
}

/// Allocation and drop, per pair: on a GPU this prints what a vector of the pool and a slice of
/// cudarc's cost (`--nocapture`).
#[test]
fn an_allocation_and_its_drop_are_timed_beside_cudarcs() {
    on_device(|context, _| {
        let (s, pool) = (stream(context)?, pool()?);
        let pairs = if std::env::var_os("RMM_DRIVER").is_some() { 10_000_u32 } else { 10 };
        let time = |what: &str, pair: &mut dyn FnMut() -> Result<(), Box<dyn Error>>| {
            (0..=pairs / 10).try_for_each(|_| pair())?;
            let begin = Instant::now();
            (0..pairs).try_for_each(|_| pair())?;
            let each = begin.elapsed() / pairs;
            println!("{what}: {each:?} a pair");
            Ok::<(), Box<dyn Error>>(())
        };
        let ours = || DeviceUVector::<f32>::uninit_in(1000, &s, &pool);
        time("vector of the pool", &mut || Ok(ours().map(drop)?))?;
        for tracked in [true, false] {
            if !tracked {
                // SAFETY: from here on, one stream is used.
                unsafe { context.disable_event_tracking() };
            }
            // SAFETY: the elements are not read.
            let theirs = || unsafe { s.alloc::<f32>(1000) };
            time(&format!("slice of cudarc, tracked: {tracked}"), &mut || Ok(theirs().map(drop)?))?;
            // SAFETY: it is used on one stream.
            let owned = || unsafe { OwnedSlice::new(ours()?, &s) };
            time(&format!("owned slice, tracked: {tracked}"), &mut || Ok(owned().map(drop)?))?;
        }
        Ok(())
    });
}
