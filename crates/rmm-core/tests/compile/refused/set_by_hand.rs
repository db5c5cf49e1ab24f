use std::sync::atomic::{AtomicBool, Ordering};

use rmm_core::{HostAccessible, PropertyId, PropertySet};

static IS_CHECKED: AtomicBool = AtomicBool::new(false);

/// Names nothing while a resource is checked, and later that it is accessible to the host.
#[derive(Clone, Copy, Debug)]
struct Growing;

impl PropertySet for Growing {
    fn members(visit: &mut dyn FnMut(PropertyId)) {
        if IS_CHECKED.load(Ordering::Relaxed) {
            visit(PropertyId::of::<HostAccessible>());
        }
    }
}

fn main() {}
