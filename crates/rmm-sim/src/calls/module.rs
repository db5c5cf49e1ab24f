//! Modules, and launches of the kernels that are registered by name.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::PoisonError;

use rmm_sys::{CuFunction, CuModule, CuResult, CuStream};

use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::model::handle::{self, HandleKind};
use crate::model::kernel::Kernel;
use crate::model::kernels::{Arguments, KernelCall};
use crate::model::signature::Dimensions;

/// The most threads of a block, as on every device since compute capability 2.0.
const MAX_THREADS: u64 = 1024;

driver_calls! {
    fn cuModuleLoadData(module: *mut CuModule, image: *const c_void) by [] |session| {
        module.required()?;
        if image.address() == 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        session.context()?;
        let key = session.next_key();
        let slot = session.kernels.modules.insert(key);
        module.put(CuModule::from_raw(handle::encode(session.machine_id(), HandleKind::Module, slot)))
    }

    fn cuModuleUnload(module: CuModule) by [module] |session| {
        let slot = session.module(module)?;
        session.kernels.modules.remove(slot);
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut CuFunction, module: CuModule, name: *const c_char) by [module] |session| {
        function.required()?;
        session.module(module)?;
        let index = session.kernels.find(&name.text()?)?;
        function.put(CuFunction::from_raw(handle::encode(session.machine_id(), HandleKind::Function, index)))
    }

    fn cuLaunchKernel(
        function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, _shared_bytes: c_uint, stream: CuStream,
        parameters: *mut *mut c_void, extra: *mut *mut c_void
    ) by [function, stream] |session| {
        let slot = handle::decode(function.addr(), session.machine_id(), HandleKind::Function);
        let registered = slot.and_then(|slot| session.kernels.registered.get(slot)).cloned();
        let registered = registered.ok_or(CuResult::INVALID_HANDLE)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let threads: u64 = block.into_iter().map(u64::from).product();
        if grid.contains(&0) || threads == 0 || threads > MAX_THREADS {
            return Err(CuResult::INVALID_VALUE);
        }
        if extra.address() != 0 {
            // Parameters in one buffer (`CU_LAUNCH_PARAM_BUFFER_POINTER`).
            return Err(CuResult::NOT_SUPPORTED);
        }
        let mut passed = Vec::new();
        for (index, parameter) in registered.parameters.iter().enumerate() {
            // SAFETY: the driver's contract of `kernelParams`: as many pointers as the kernel has
            // parameters, each to a value of the parameter's size.
            passed.push(unsafe { parameters.parameter(index, parameter.passed()) }?);
        }
        let dimensions = Dimensions { grid, block };
        let arguments = Arguments { parameters: registered.parameters, passed, dimensions };
        let (ranges, body) = (arguments.ranges()?, registered.body);
        let mut kernel = Kernel::repeatable(registered.name, move |memory| {
            let mut call = KernelCall { arguments: &arguments, memory };
            let mut body = body.lock().unwrap_or_else(PoisonError::into_inner);
            // The access that failed is reported where it was found.
            let _ignored = body(&mut call);
        });
        for (pointer, bytes, operation) in ranges {
            kernel = kernel.uses(pointer, bytes, operation);
        }
        let body = session.kernel_body(kernel)?;
        session.launch_kernel(stream, body)
    }
}

impl Session<'_> {
    fn module(&self, module: CuModule) -> Result<usize, CuResult> {
        let slot = handle::decode(module.addr(), self.machine_id(), HandleKind::Module);
        let is_loaded = |slot: &usize| self.kernels.modules.get(*slot).is_some();
        slot.filter(is_loaded).ok_or(CuResult::INVALID_HANDLE)
    }
}
