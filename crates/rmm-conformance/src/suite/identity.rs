//! Equality, and type erasure.

use std::alloc::Layout;

use rmm_adaptors::LoggingResourceAdaptor;
use rmm_core::{
    AnyResource, DeviceAccessible, DeviceAsyncResourceRef, DeviceResource, Introspect, Resource,
    SynchronousResource,
};

use crate::failure::ensure;
use crate::{CheckResult, Failure, Subject};

/// Clause 4: memory may be freed by a resource that is equal to the one it came from: a clone, or
/// either one with its type forgotten. Erasure keeps equality, the name, the type and what the
/// memory can do, through a wrapper too.
///
/// # Errors
/// What is wrong.
pub fn equality_and_erasure_keep_the_resource<R: DeviceResource>(
    subject: &Subject<'_, R>,
) -> CheckResult {
    let original = subject.resource();
    let clone = original.clone();
    let any: AnyResource = AnyResource::of(original);
    let twice: AnyResource = AnyResource::new(any.clone());
    let borrowed = DeviceAsyncResourceRef::new(original);
    ensure(*original == clone, || "a clone is not equal to its original".into())?;
    ensure(any == AnyResource::new(clone.clone()), || "erasure does not keep equality".into())?;
    ensure(any == twice, || "erasing twice makes another resource".into())?;
    ensure(twice.downcast_ref::<R>() == Some(original), || "the type is lost".into())?;
    let names = [any.name(), twice.name(), borrowed.name()];
    ensure(names == [original.name(); 3], || format!("the name is lost: {names:?}"))?;
    let wrapped = LoggingResourceAdaptor::to_writer(original.clone(), std::io::sink())?;
    ensure(original.declares::<DeviceAccessible>(), || {
        "a property that the type declares is not reported at run time".into()
    })?;
    ensure(wrapped.find::<R>() == Some(original), || "a wrapper hides what it wraps".into())?;
    let wrapped: AnyResource = AnyResource::new(wrapped);
    ensure(any != wrapped, || "a wrapper is taken for what it wraps".into())?;
    ensure(wrapped.find::<R>() == Some(original), || "an erased wrapper hides it".into())?;

    let ways: [&dyn Resource; 5] = [original, &clone, &any, &twice, &borrowed];
    let (stream, other) = (subject.stream(), subject.other_stream()?);
    let layout = Layout::from_size_align(3000, 256).map_err(Failure::new)?;
    for (place, from) in ways.iter().enumerate() {
        let to = ways[(place + 1) % ways.len()];
        let ordered = from.allocate(stream, layout)?;
        let elsewhere = from.allocate(&other, layout)?;
        let at_once = from.allocate_sync(layout)?;
        // SAFETY: allocated just now with this layout from an equal resource, and not used.
        unsafe { to.do_deallocate(stream.as_stream_ref(), ordered, layout) };
        // SAFETY: as above.
        unsafe { to.do_deallocate(other.as_stream_ref(), elsewhere, layout) };
        // SAFETY: as above.
        unsafe { to.deallocate_sync(at_once, layout) };
    }
    Ok(())
}
