//! Functions that the software device does not support: they are counted, can be made to fail, and
//! return `NOT_SUPPORTED`.

use std::ffi::{c_uint, c_void};

use rmm_sys::{
    CuDevice, CuDevicePtr, CuEvent, CuGraphMemAttribute, CuIpcEventHandle, CuIpcMemHandle, CuResult,
};

use crate::calls::call::call;

macro_rules! unsupported {
    ($(fn $name:ident($($type:ty),*);)*) => {$(
        #[expect(non_snake_case, reason = "the driver's own name")]
        pub(crate) unsafe extern "C" fn $name($(_: $type),*) -> CuResult {
            call(stringify!($name), &[], |_| Err(CuResult::NOT_SUPPORTED))
        }
    )*};
}

unsupported! {
    fn cuDeviceGetGraphMemAttribute(CuDevice, CuGraphMemAttribute, *mut c_void);
    fn cuDeviceSetGraphMemAttribute(CuDevice, CuGraphMemAttribute, *mut c_void);
    fn cuDeviceGraphMemTrim(CuDevice);
    fn cuIpcOpenMemHandle_v2(*mut CuDevicePtr, CuIpcMemHandle, c_uint);
    fn cuIpcCloseMemHandle(CuDevicePtr);
    fn cuIpcGetEventHandle(*mut CuIpcEventHandle, CuEvent);
    fn cuIpcOpenEventHandle(*mut CuEvent, CuIpcEventHandle);
}
