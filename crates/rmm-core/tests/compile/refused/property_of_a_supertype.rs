#![allow(coherence_leak_check)] // the two properties below are different types, one a subtype of the other

use rmm_core::{AnyResource, AnySynchronousResource, Property, ResourceRef, SynchronousResourceRef};

#[derive(Clone, Copy, Debug)]
struct Tagged<T>(std::marker::PhantomData<T>);

type Any = Tagged<for<'a> fn(&'a u8)>;
type Fixed = Tagged<fn(&'static u8)>;

impl Property for Any {
    const NAME: &'static str = "any";
}

impl Property for Fixed {
    const NAME: &'static str = "fixed";
}

fn owned(known: AnyResource<Any>) -> AnyResource<Fixed> {
    known
}

fn owned_sync(known: AnySynchronousResource<Any>) -> AnySynchronousResource<Fixed> {
    known
}

fn borrowed(known: ResourceRef<'_, Any>) -> ResourceRef<'_, Fixed> {
    known
}

fn borrowed_sync(known: SynchronousResourceRef<'_, Any>) -> SynchronousResourceRef<'_, Fixed> {
    known
}

fn main() {}
