//! Kernels launched by cudarc's builder.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, LaunchConfig, PushKernelArg};
use cudarc_0_19 as cudarc;
use rmm_containers::DeviceUVector;
use rmm_core::CudaStream;
use rmm_interop_cudarc::{Lend, LendMut, OwnedSlice};
use rmm_sim::Machine;

use crate::common::*;

fn saxpy(machine: &Machine, context: &Arc<CudaContext>) -> CudaFunction {
    machine.kernel("saxpy", "float y[n], const float x[n], float a, size_t n", |call| {
        let (a, x, y) = (call.value::<f32>("a"), call.read::<f32>("x")?, call.read::<f32>("y")?);
        let sums: Vec<f32> = y.iter().zip(x).map(|(y, x)| a * x + y).collect();
        call.write("y", &sums)
    });
    let module = context.load_module(cudarc::nvrtc::Ptx::from_src("")).expect("any image loads");
    module.load_function("saxpy").expect("it is registered")
}

#[test]
fn lent_containers_are_arguments() {
    check(|machine, context| {
        let (saxpy, stream, resource) = (saxpy(machine, context), stream(context), driver_pool());
        let home = CudaStream::new().unwrap();
        let x = DeviceUVector::from_slice_in(&[1.0_f32; 1000], &home, &resource).unwrap();
        let mut y = DeviceUVector::from_slice_in(&[2.0_f32; 1000], &home, &resource).unwrap();
        let (a, n) = (3.0_f32, 1000_usize);
        // SAFETY: these are the kernel's parameters.
        unsafe {
            stream
                .launch_builder(&saxpy)
                .arg(&y.lend_mut(&stream).unwrap())
                .arg(&x.lend(&stream).unwrap())
                .arg(&a)
                .arg(&n)
                .launch(LaunchConfig::for_num_elems(1000))
        }
        .unwrap();
        drop(x); // freed on `home`, which waits for the kernel
        assert_eq!(y.to_vec().unwrap(), [5.0; 1000]);
    });
}

#[test]
fn owned_slices_are_arguments() {
    check(|machine, context| {
        let (f, s, pool) = (saxpy(machine, context), stream(context), pool());
        let vector = DeviceUVector::<f32>::zeroed_in(100, &s, &pool).unwrap();
        // SAFETY: it is used on one stream.
        let mut y = unsafe { OwnedSlice::new(vector, &s) }.unwrap();
        let x = s.clone_htod(&[1.0_f32; 100]).unwrap();
        let config = LaunchConfig::for_num_elems(100);
        // SAFETY: these are the kernel's parameters.
        unsafe {
            s.launch_builder(&f).arg(&mut y).arg(&x).arg(&3.0_f32).arg(&100_usize).launch(config)
        }
        .unwrap();
        assert_eq!(s.clone_dtoh(&*y).unwrap(), [3.0; 100]);
    });
}

#[test]
fn a_kernel_is_in_order_with_what_it_accesses() {
    let report = report(|machine, context| {
        let (f, resource) = (saxpy(machine, context), driver_pool());
        let (s, other) = (stream(context), stream(context));
        let x = DeviceUVector::from_slice_in(&[1.0_f32; 10], &s, &resource).unwrap();
        let mut y = DeviceUVector::from_slice_in(&[1.0_f32; 10], &s, &resource).unwrap();
        let config = LaunchConfig::for_num_elems(10);
        let (x, y) = (x.lend(&s).unwrap(), y.lend_mut(&s).unwrap());
        // SAFETY: these are the kernel's parameters; the stream is not the one that they were lent
        // to, which is what this test is about.
        unsafe {
            other.launch_builder(&f).arg(&y).arg(&x).arg(&3.0_f32).arg(&10_usize).launch(config)
        }
        .unwrap();
    });
    assert!(report.contains("saxpy"), "{report}");
}

#[test]
fn a_kernel_that_is_not_registered_is_not_found() {
    let report = report(|_, context| {
        let module = context.load_module(cudarc::nvrtc::Ptx::from_src("")).unwrap();
        module.load_function("sgemm").unwrap();
    });
    assert!(report.contains("the kernel `sgemm` was not found: register it"), "{report}");
    assert!(report.contains("Machine::kernel"), "cudarc shows the driver's text: {report}");
}
