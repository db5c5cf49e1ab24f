use std::any::Any;

use rmm_core::{DevicePtr, Error};

/// A value of whatever type is asked for.
fn any<T: 'static>() -> T {
    let memory: Result<DevicePtr, Error> = Ok(DevicePtr(4096)); // not memory of the upstream
    let values: [Box<dyn Any>; 2] = [Box::new(memory), Box::new("returns")];
    *values.into_iter().find_map(|value| value.downcast().ok()).expect("one of the two")
}

#[derive(Debug)]
struct Adaptor<R> {
    upstream: R,
}

rmm_core::adaptor! {
    Adaptor<R> over upstream, name = return any();
    fn allocate(&self, below, layout) {
        below.allocate(layout)
    }
}

fn main() {}
