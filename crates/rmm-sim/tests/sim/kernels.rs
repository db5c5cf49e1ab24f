//! Kernels that are registered by name, launched through the driver.

use std::ffi::c_void;

use rmm_sim::{KernelCall, Machine, Schedule, ViolationKind};
use rmm_sys::{CuDevicePtr, CuFunction, CuModule, CuResult, CuStream};

use crate::common::*;

const SAXPY: &str = "float y[n], const float x[n], float a, size_t n";

fn saxpy(call: &mut KernelCall<'_, '_>) -> Result<(), CuResult> {
    let (a, x, y) = (call.value::<f32>("a"), call.read::<f32>("x")?, call.read::<f32>("y")?);
    let sums: Vec<f32> = y.iter().zip(x).map(|(y, x)| a * x + y).collect();
    call.write("y", &sums)
}

fn find(name: &std::ffi::CStr) -> Result<CuFunction, CuResult> {
    let (mut module, mut function) = (CuModule::NULL, CuFunction::NULL);
    ok!(cuModuleLoadData(&raw mut module, c"any image".as_ptr().cast()));
    cu!(cuModuleGetFunction(&raw mut function, module, name.as_ptr())).result()?;
    Ok(function)
}

fn launch(
    function: CuFunction,
    stream: CuStream,
    y: CuDevicePtr,
    x: CuDevicePtr,
    n: usize,
) -> CuResult {
    let (mut y, mut x, mut a, mut n) = (y, x, 2.0_f32, n);
    let mut parameters: [*mut c_void; 4] =
        [(&raw mut y).cast(), (&raw mut x).cast(), (&raw mut a).cast(), (&raw mut n).cast()];
    let none = std::ptr::null_mut();
    cu!(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters.as_mut_ptr(), none))
}

fn fill(machine: &Machine, pointer: CuDevicePtr, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    machine.write(pointer, &bytes).expect("it is allocated");
}

#[test]
fn a_registered_kernel_reads_and_writes_its_arguments() {
    let (machine, _entered) = start(Schedule::Lazy);
    machine.kernel("saxpy", SAXPY, saxpy);
    let function = find(c"saxpy").expect("it is registered");
    let (x, y) = (alloc(16), alloc(16));
    fill(&machine, x, &[1.0, 2.0, 3.0, 4.0]);
    fill(&machine, y, &[10.0; 4]);
    assert_eq!(launch(function, stream(), y, x, 4), CuResult::SUCCESS);
    ok!(cuCtxSynchronize());
    let mut bytes = [0; 16];
    machine.read(y, &mut bytes).expect("it is allocated");
    let values: Vec<f32> =
        bytes.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().unwrap())).collect();
    assert_eq!(values, [12.0, 14.0, 16.0, 18.0]);
    machine.assert_no_violations();
}

#[test]
fn its_arguments_are_what_the_checks_judge() {
    let (machine, _entered) = start(Schedule::Lazy);
    machine.kernel("saxpy", SAXPY, saxpy);
    let function = find(c"saxpy").expect("it is registered");
    let (x, y) = (alloc(16), alloc(16));
    ok!(cuMemsetD8_v2(x, 0, 16));
    ok!(cuMemsetD8_v2(y, 0, 16));
    ok!(cuCtxSynchronize());
    let (first, second) = (stream(), stream());
    assert_eq!(launch(function, first, y, x, 4), CuResult::SUCCESS);
    // Two readers of `x` are in order; two writers of `y` are not.
    let z = alloc(16);
    ok!(cuMemsetD8_v2(z, 0, 16));
    ok!(cuStreamSynchronize(CuStream::LEGACY));
    assert_eq!(launch(function, second, z, x, 4), CuResult::SUCCESS);
    assert!(machine.violations().is_empty());
    assert_eq!(launch(function, second, y, x, 4), CuResult::SUCCESS);
    assert_eq!(machine.violations()[0].kind, ViolationKind::Race);
}

#[test]
fn an_argument_outside_an_allocation_is_refused() {
    let (machine, _entered) = start(Schedule::Eager);
    machine.kernel("saxpy", SAXPY, saxpy);
    let function = find(c"saxpy").expect("it is registered");
    let (x, y) = (alloc(16), alloc(16));
    assert_eq!(launch(function, CuStream::NULL, y, x, 1 << 20), CuResult::INVALID_VALUE);
    assert_eq!(launch(function, CuStream::NULL, y, x, usize::MAX), CuResult::INVALID_VALUE);
    assert_eq!(launch(function, CuStream::NULL, CuDevicePtr(8), x, 4), CuResult::INVALID_VALUE);
    assert_eq!(launch(function, CuStream::NULL, CuDevicePtr(8), x, 0), CuResult::SUCCESS);
    assert_eq!(launch(CuFunction::NULL, CuStream::NULL, y, x, 4), CuResult::INVALID_HANDLE);
}

#[test]
fn a_launch_of_no_thread_or_too_many_is_refused() {
    let (machine, _entered) = start(Schedule::Eager);
    machine.kernel("nothing", "", |call| {
        assert_eq!((call.grid(), call.block()), ([2, 3, 4], [32, 2, 1]));
        Ok(())
    });
    let function = find(c"nothing").expect("it is registered");
    let none = std::ptr::null_mut();
    let launch = |[a, b, c]: [u32; 3], [x, y, z]: [u32; 3]| {
        cu!(cuLaunchKernel(function, a, b, c, x, y, z, 0, CuStream::NULL, none, none))
    };
    assert_eq!(launch([2, 3, 4], [32, 2, 1]), CuResult::SUCCESS);
    machine.assert_no_violations(); // a panic of a kernel is one
    assert_eq!(launch([0, 1, 1], [32, 1, 1]), CuResult::INVALID_VALUE);
    assert_eq!(launch([1, 1, 1], [32, 0, 1]), CuResult::INVALID_VALUE);
    assert_eq!(launch([1, 1, 1], [32, 32, 2]), CuResult::INVALID_VALUE);
}

#[test]
fn a_kernel_that_is_not_registered_is_not_found() {
    let (machine, _entered) = start(Schedule::Eager);
    machine.kernel("saxpy", SAXPY, saxpy);
    assert_eq!(find(c"sgemm"), Err(CuResult::NOT_FOUND));
    assert_eq!(machine.missing_kernels(), ["sgemm"]);
}

#[test]
fn a_check_that_fails_names_the_kernel_to_register() {
    let wrong = std::panic::catch_unwind(|| {
        rmm_sim::check(|machine| {
            let (_machine, _entered) = enter(machine.clone());
            find(c"sgemm").expect("not registered");
        });
    });
    let report = *wrong.unwrap_err().downcast::<String>().unwrap();
    assert!(report.contains("the kernel `sgemm` was not found: register it"), "{report}");
}

#[test]
fn a_module_is_known_until_it_is_unloaded() {
    let (machine, _entered) = start(Schedule::Eager);
    machine.kernel("nothing", "", |_| Ok(()));
    let (mut module, mut function) = (CuModule::NULL, CuFunction::NULL);
    ok!(cuModuleLoadData(&raw mut module, c"image".as_ptr().cast()));
    ok!(cuModuleUnload(module));
    let code = cu!(cuModuleGetFunction(&raw mut function, module, c"nothing".as_ptr()));
    assert_eq!(code, CuResult::INVALID_HANDLE);
    assert_eq!(cu!(cuModuleUnload(module)), CuResult::INVALID_HANDLE);
    let none = std::ptr::null();
    assert_eq!(cu!(cuModuleLoadData(&raw mut module, none)), CuResult::INVALID_VALUE);
}

#[test]
fn a_captured_launch_keeps_its_arguments() {
    let (machine, _entered) = start(Schedule::Lazy);
    machine.kernel("saxpy", SAXPY, saxpy);
    let function = find(c"saxpy").expect("it is registered");
    let (x, y, stream) = (alloc(4), alloc(4), stream());
    fill(&machine, x, &[1.0]);
    fill(&machine, y, &[0.0]);
    let mut graph = rmm_sys::CuGraph::NULL;
    let mut executable = rmm_sys::CuGraphExec::NULL;
    ok!(cuStreamBeginCapture_v2(stream, rmm_sys::CuCaptureMode::THREAD_LOCAL));
    assert_eq!(launch(function, stream, y, x, 1), CuResult::SUCCESS);
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    ok!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
    for _ in 0..3 {
        ok!(cuGraphLaunch(executable, stream));
    }
    ok!(cuStreamSynchronize(stream));
    let mut bytes = [0; 4];
    machine.read(y, &mut bytes).expect("it is allocated");
    assert_eq!(bytes, 6.0_f32.to_ne_bytes());
}
