//! Tests of the failure callback: which errors it gets, with which attempt, and when it is no
//! longer called.

use std::alloc::Layout;
use std::sync::{Arc, Mutex};

use rmm_adaptors::FailureCallbackResourceAdaptor;
use rmm_core::{Error, ErrorKind, Resource, StreamRef, SynchronousResource};

use super::scripted::{Scripted, free_sync};
use crate::support::layout;

fn fails(upstream: &Scripted, times: usize) {
    let errors = (0..times).map(|_| Error::out_of_memory("scripted"));
    upstream.state().errors.extend(errors);
}

/// RMM #2402: the request's alignment was lost.
#[test]
fn a_retry_repeats_the_request_unchanged() {
    let (upstream, calls) = (Scripted::default(), Arc::new(Mutex::new(Vec::new())));
    let sink = Arc::clone(&calls);
    let resource = FailureCallbackResourceAdaptor::new(upstream.clone(), move |failure| {
        sink.lock().unwrap().push((failure.attempt.get(), failure.stream, failure.layout));
        failure.error.is_out_of_memory()
    });
    fails(&upstream, 3);
    let wants = Layout::from_size_align(100, 4096).unwrap();
    let stream = StreamRef::legacy();
    let block = resource.allocate(stream, wants).unwrap();
    assert_eq!(upstream.state().asked, [wants]);
    let on = Some(stream.id());
    assert_eq!(*calls.lock().unwrap(), [(1, on, wants), (2, on, wants), (3, on, wants)]);
    free_sync(&resource, block, wants);
}

/// In RMM, a callback that always returned true was called for ever.
#[test]
fn the_callback_is_called_at_most_max_retries_times() {
    let (upstream, asked) = (Scripted::default(), Arc::new(Mutex::new(0)));
    let asked_here = Arc::clone(&asked);
    let resource =
        FailureCallbackResourceAdaptor::builder(upstream.clone()).max_retries(5).build(move |_| {
            *asked_here.lock().unwrap() += 1;
            true
        });
    fails(&upstream, 1000);
    assert!(resource.allocate_sync(layout(1)).unwrap_err().is_out_of_memory());
    assert_eq!(*asked.lock().unwrap(), 5);
    assert_eq!(upstream.state().errors.len(), 1000 - 6, "once, and five times again");
    let unbounded = FailureCallbackResourceAdaptor::new(upstream.clone(), |_| true);
    unbounded.allocate_sync(layout(1)).unwrap_err();
    assert_eq!(upstream.state().errors.len(), 1000 - 6 - 17, "a bound is there by default");
}

#[test]
fn false_or_another_kind_of_error_ends_the_retries() {
    let upstream = Scripted::default();
    let resource = FailureCallbackResourceAdaptor::new(upstream.clone(), |_| false);
    fails(&upstream, 2);
    resource.allocate_sync(layout(1)).unwrap_err();
    assert_eq!(upstream.state().errors.len(), 1);

    let resource = FailureCallbackResourceAdaptor::builder(upstream.clone())
        .on([ErrorKind::Unsupported])
        .build(|failure| {
            assert!(failure.error.is_unsupported());
            true
        });
    assert!(resource.allocate_sync(layout(1)).unwrap_err().is_out_of_memory());
    upstream.state().errors.push(Error::unsupported("scripted", "not now"));
    resource.allocate_sync(layout(1)).unwrap();
}

#[test]
fn the_callback_is_called_for_every_kind_given_to_on() {
    let upstream = Scripted::default();
    let retries = |builder: rmm_adaptors::FailureCallbackResourceAdaptorBuilder<Scripted>| {
        let resource = builder.max_retries(1).build(|_| true);
        let is_tried_again = |error: Error| {
            upstream.state().errors.push(error);
            match resource.allocate_sync(layout(1)) {
                Ok(block) => {
                    free_sync(&resource, block, layout(1));
                    true
                }
                Err(_) => false,
            }
        };
        [
            Error::out_of_memory("scripted"),
            Error::unsupported("scripted", "not now"),
            Error::invalid_argument("scripted", "never"),
        ]
        .map(is_tried_again)
    };
    let builder = || FailureCallbackResourceAdaptor::builder(upstream.clone());
    assert_eq!(retries(builder()), [true, false, false]);
    let both = [ErrorKind::OutOfMemory, ErrorKind::Unsupported];
    assert_eq!(retries(builder().on(both)), [true, true, false]);
    assert_eq!(retries(builder().on([both[0]]).on([both[1]])), [true, true, false]);
    assert_eq!(retries(builder().on([both[1]])), [false, true, false]);
}
