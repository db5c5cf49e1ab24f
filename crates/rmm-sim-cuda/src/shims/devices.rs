//! Devices, contexts, and their settings.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use rmm_sys::{CuContext, CuDevice, CuDeviceAttribute, CuResult, CuUuid};

use super::{code_of, current_context, put};

/// `cuCtxGetApiVersion` of every context since CUDA 3.2.
const API_VERSION: c_uint = 3020;

/// The limits of `CUlimit` and their defaults, as an H200 reports them.
const LIMITS: [(c_uint, usize); 7] =
    [(0, 1024), (1, 7 << 20), (2, 8 << 20), (3, 2), (4, 2048), (5, 64), (6, 0)];

/// What programs have set, by the context's handle and the limit.
static SET: Mutex<BTreeMap<(usize, c_uint), usize>> = Mutex::new(BTreeMap::new());

/// What a context is created with (`CUctxCreateParams`), beside its flags.
#[doc(alias = "CUctxCreateParams")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CreateParameters {
    /// Which multiprocessors it may use: an array, which is not served.
    pub affinity: *const c_void,
    /// The elements of that array.
    pub affinities: c_int,
    /// Sharing with a graphics context, which is not served.
    pub graphics: *const c_void,
}

driver_shims! {
    fn cuDeviceGetUuid(uuid: *mut CuUuid, device: CuDevice) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuDeviceGetUuid_v2(uuid, device) }
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CuDevice) {
        let (first, second) = (CuDeviceAttribute(75), CuDeviceAttribute(76));
        // SAFETY: the caller's contract.
        match unsafe { rmm_sim::driver().cuDeviceGetAttribute(major, first, device) } {
            // SAFETY: as above.
            CuResult::SUCCESS => unsafe {
                rmm_sim::driver().cuDeviceGetAttribute(minor, second, device)
            },
            code => code,
        }
    }

    fn cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: CuDevice) {
        let mut uuid = CuUuid::default();
        // SAFETY: `uuid` is valid for a write.
        let code = unsafe { rmm_sim::driver().cuDeviceGetUuid_v2(&raw mut uuid, device) };
        if !code.is_success() {
            return code;
        }
        let name = format!("0000:{:02x}:00.0\0", device.0 + 1);
        if text.is_null() || usize::try_from(length).is_ok_and(|length| length < name.len()) {
            return CuResult::INVALID_VALUE;
        }
        // SAFETY: the caller has `length` bytes there, and the name is no longer than that.
        unsafe { text.cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), name.len()) };
        CuResult::SUCCESS
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: CuDevice, flags: c_uint) {
        rmm_sim::set_primary_context_flags(device, flags)
    }

    fn cuCtxCreate_v2(context: *mut CuContext, flags: c_uint, device: CuDevice) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::create_context(context, flags, device) }
    }

    fn cuCtxCreate_v3(context: *mut CuContext, affinity: *const c_void, affinities: c_int, flags: c_uint, device: CuDevice) {
        // A context on some of the multiprocessors.
        if !affinity.is_null() || affinities != 0 {
            return CuResult::NOT_SUPPORTED;
        }
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::create_context(context, flags, device) }
    }

    fn cuCtxCreate_v4(context: *mut CuContext, parameters: *const CreateParameters, flags: c_uint, device: CuDevice) {
        if !parameters.is_null() {
            // SAFETY: it is not null, and by the caller's contract valid for a read.
            let CreateParameters { affinity, affinities, graphics } = unsafe { parameters.read() };
            if !affinity.is_null() || affinities != 0 || !graphics.is_null() {
                return CuResult::NOT_SUPPORTED;
            }
        }
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::create_context(context, flags, device) }
    }

    fn cuCtxDestroy_v2(context: CuContext) {
        forget_limits(context);
        rmm_sim::destroy_context(context)
    }

    fn cuCtxGetApiVersion(_context: CuContext, version: *mut c_uint) {
        // SAFETY: the caller's contract.
        unsafe { put(version, API_VERSION) }
    }

    fn cuCtxGetFlags(flags: *mut c_uint) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::context_flags(flags) }
    }

    fn cuCtxSetFlags(flags: c_uint) {
        rmm_sim::set_context_flags(flags)
    }

    fn cuCtxGetLimit(value: *mut usize, limit: c_uint) {
        match limit_of(limit) {
            // SAFETY: the caller's contract.
            Ok(limit) => unsafe { put(value, limit) },
            Err(code) => code,
        }
    }

    fn cuCtxSetLimit(limit: c_uint, value: usize) {
        code_of(limit_of(limit).and_then(|_| {
            let context = current_context()?.addr();
            let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
            set.insert((context, limit), value);
            Ok(())
        }))
    }

    fn cuCtxGetCacheConfig(config: *mut c_uint) {
        match current_context() {
            // SAFETY: the caller's contract.
            Ok(_) => unsafe { put(config, 0) },
            Err(code) => code,
        }
    }

    fn cuCtxSetCacheConfig(_config: c_uint) {
        code_of(current_context().map(drop))
    }
}

/// The limits of a context that ends go with it: its handle is reused.
fn forget_limits(context: CuContext) {
    let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
    set.retain(|&(of, _), _| of != context.addr());
}

/// The current context's limit.
///
/// # Errors
/// `UNSUPPORTED_LIMIT` for one that is not known.
fn limit_of(limit: c_uint) -> Result<usize, CuResult> {
    let context = current_context()?.addr();
    let default = LIMITS.iter().find(|(known, _)| *known == limit);
    let (_, default) = default.ok_or(CuResult::UNSUPPORTED_LIMIT)?;
    let set = SET.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(set.get(&(context, limit)).copied().unwrap_or(*default))
}
