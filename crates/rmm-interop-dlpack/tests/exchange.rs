//! Containers become tensors of another crate, and tensors become containers, under every schedule.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlpark::versioned::Dlpack;
use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceUVector, ManagedVec, PinnedVec};
use rmm_core::{CudaStream, ErrorKind, StreamFlags, StreamRef, copy};
use rmm_interop_dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_READ_ONLY, Ready,
    ToDlpack, from_dlpack,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Checker, Kernel, Machine};

fn stream() -> CudaStream {
    CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream")
}

fn on(stream: &CudaStream) -> Ready<'_> {
    Ready::On(stream.into())
}

/// A vector of a pool, whose memory is reused at once when it is freed.
fn vector(stream: &CudaStream) -> DeviceUVector<f32> {
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    DeviceUVector::from_slice_in(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], stream, &pool).expect("a vector")
}

/// The tensor, as an owner of another crate.
fn theirs(tensor: NonNull<DLManagedTensorVersioned>) -> Dlpack {
    // SAFETY: the tensor is valid, and passed on once.
    unsafe { Dlpack::from_raw(tensor.as_ptr().cast()) }.expect("a tensor of this version")
}

/// The tensor of another crate, as one of ours.
fn ours(tensor: Dlpack) -> NonNull<DLManagedTensorVersioned> {
    NonNull::new(tensor.into_raw().cast()).expect("it is not null")
}

/// Launches a kernel that uses all bytes of a tensor.
fn launch(machine: &Machine, stream: &CudaStream, tensor: &Dlpack) {
    // SAFETY: nothing changes the tensor.
    let data = unsafe { tensor.tensor() }.data;
    let pointer = rmm_core::DevicePtr(data.addr() as u64);
    let kernel = Kernel::new("consume", |_| ()).writes(pointer, 24);
    machine.launch(stream.as_raw(), kernel).expect("the memory is the device's");
}

#[test]
fn a_vector_is_exported_and_dropped_on_another_thread() {
    rmm_sim::check(|machine| {
        let (own, other, consumer) = (stream(), stream(), stream());
        let mut vector = vector(&own);
        vector.as_slice_mut().fill_on(7.0, &other).expect("a fill");
        let tensor = theirs(vector.into_dlpack(&[2, 3], on(&consumer)).expect("a tensor"));
        let description = tensor.validate().expect("a valid tensor");
        assert_eq!(description.shape(), [2, 3]);
        assert_eq!(description.device(), dlpark::ffi::DLDevice::cuda(0));
        launch(machine, &consumer, &tensor);
        std::thread::scope(|scope| {
            let dropped = scope.spawn(|| machine.scope(|| drop(tensor)));
            dropped.join().expect("no panic");
        });
    });
}

#[test]
fn a_tensor_comes_back_as_a_vector() {
    rmm_sim::check(|machine| {
        let (own, consumer, back) = (stream(), stream(), stream());
        let tensor = vector(&own).into_dlpack(&[3, 2], on(&consumer)).expect("a tensor");
        let tensor = theirs(tensor);
        launch(machine, &consumer, &tensor);
        back.wait_for(&consumer).expect("an event");
        // SAFETY: the tensor is valid, passed on once, and ready on `back`.
        let tensor = unsafe { from_dlpack::<f32>(ours(tensor), &back) }.expect("a vector");
        assert_eq!((tensor.shape(), tensor.is_read_only()), (&[3, 2][..], false));
        assert_eq!(tensor.as_slice().to_vec_on(&own).expect("a copy")[5..], [6.0]);
        let mut vector = tensor.into_vector().expect("it may be written");
        vector.as_slice_mut().fill_on(8.0, &own).expect("a fill");
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| machine.scope(|| vector.to_vec().map(|all| (all, vector)))).join()
        });
        let (all, vector) = sent.expect("no panic").expect("a copy");
        assert_eq!(all, [8.0; 6]);
        drop(vector);
    });
}

#[test]
fn an_imported_tensor_is_deleted_after_its_last_use() {
    rmm_sim::check(|_| {
        let (own, back, other) = (stream(), stream(), stream());
        // Its deleter frees it in the order of `own`, which does not wait for the others.
        let tensor = vector(&own).into_dlpack(&[6], on(&own)).expect("a tensor");
        back.wait_for(&own).expect("an event");
        // SAFETY: the tensor is valid, passed on once, and ready on `back`.
        let tensor = unsafe { from_dlpack::<f32>(tensor, &back) }.expect("a vector");
        let mut vector = tensor.into_vector().expect("it may be written");
        vector.as_slice_mut().fill_on(8.0, &other).expect("a fill");
        drop(vector);
    });
}

#[test]
fn host_memory_is_exported_after_its_copies() {
    rmm_sim::check(|_| {
        let (own, consumer) = (stream(), stream());
        let vector = vector(&own);
        let mut pinned = PinnedVec::<f32>::zeroed(6).expect("a vector");
        pinned.copy_from_device(vector.as_slice(), &own).expect("a copy");
        let tensor = theirs(pinned.into_dlpack(&[6], on(&consumer)).expect("a tensor"));
        // SAFETY: nothing changes the tensor.
        let source = rmm_core::DevicePtr(unsafe { tensor.tensor() }.data.addr() as u64);
        let target = DeviceUVector::<f32>::uninit(6, &consumer).expect("a vector");
        // SAFETY: both have 24 bytes, and are ready on the stream: `own` has made its copy.
        let copied = unsafe { copy::device_to_device(target.as_ptr(), source, 24, &consumer) };
        copied.expect("a copy");
        drop(tensor); // waits for the copy
        assert_eq!(target.to_vec().expect("a copy")[5..], [6.0]);

        let mut managed = ManagedVec::<f32>::zeroed(6).expect("a vector");
        managed.copy_from_device(vector.as_slice(), &own).expect("a copy");
        let tensor = theirs(managed.into_dlpack(&[6], Ready::Complete).expect("a tensor"));
        let description = tensor.validate().expect("a valid tensor");
        assert_eq!(description.device().device_type, dlpark::ffi::DLDeviceType::CUDAMANAGED);
        // SAFETY: nothing changes the tensor.
        let data = unsafe { tensor.tensor() }.data.cast::<[u32; 2]>();
        // SAFETY: managed memory of 6 elements, and all work on it is complete.
        assert_eq!(unsafe { data.read() }, [1.0f32.to_bits(), 2.0f32.to_bits()]);
    });
}

#[test]
fn a_complete_tensor_is_used_on_any_stream() {
    rmm_sim::check(|machine| {
        let (own, other, consumer) = (stream(), stream(), stream());
        let mut vector = vector(&own);
        vector.as_slice_mut().fill_on(7.0, &other).expect("a fill");
        let tensor = theirs(vector.into_dlpack(&[6], Ready::Complete).expect("a tensor"));
        launch(machine, &consumer, &tensor);
        consumer.synchronize().expect("the device works");
        drop(tensor);
    });
}

#[test]
fn an_unordered_tensor_is_ready_on_its_own_stream() {
    rmm_sim::check(|machine| {
        let (own, other) = (stream(), stream());
        let mut vector = vector(&own);
        vector.as_slice_mut().fill_on(7.0, &other).expect("a fill");
        let tensor = theirs(vector.into_dlpack(&[6], Ready::Unordered).expect("a tensor"));
        launch(machine, &own, &tensor);
        drop(tensor);
    });
}

#[test]
fn twin_a_consumer_that_names_no_stream_is_reported() {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        Checker::new().leaks(false).run(|machine| {
            let (own, consumer) = (stream(), stream());
            let tensor = vector(&own).into_dlpack(&[6], Ready::Unordered).expect("a tensor");
            let tensor = theirs(tensor);
            launch(machine, &consumer, &tensor);
            drop(tensor);
        });
    }));
    let report = *outcome.expect_err("a violation").downcast::<String>().expect("a report");
    assert!(report.contains("while in use"), "{report}");
}

/// A tensor of another library, which nothing frees.
struct Foreign {
    tensor: DLManagedTensorVersioned,
    /// How often the deleter was called.
    deleted: AtomicUsize,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor exists.
    let context = unsafe { (*tensor).manager_ctx };
    // SAFETY: it points to the counter of the tensor.
    let deleted = unsafe { &*context.cast::<AtomicUsize>() };
    deleted.fetch_add(1, Ordering::Relaxed);
}

impl Foreign {
    fn new(shape: &[i64], strides: Option<&[i64]>) -> Box<Self> {
        let dl_tensor = DLTensor {
            data: std::ptr::without_provenance_mut(4096),
            device: DLDevice { device_type: DLDevice::CUDA, device_id: 0 },
            ndim: i32::try_from(shape.len()).expect("few dimensions"),
            dtype: DLDataType { code: DLDataType::FLOAT, bits: 32, lanes: 1 },
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        let tensor = DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 7 },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor,
        };
        let strides_of = strides.unwrap_or_default().to_vec();
        let mut foreign = Box::new(Self {
            tensor,
            deleted: AtomicUsize::new(0),
            shape: shape.to_vec(),
            strides: strides_of,
        });
        foreign.tensor.manager_ctx = (&raw mut foreign.deleted).cast();
        foreign.tensor.dl_tensor.shape = foreign.shape.as_mut_ptr();
        if strides.is_some() {
            foreign.tensor.dl_tensor.strides = foreign.strides.as_mut_ptr();
        }
        foreign
    }

    fn deleted(&self) -> usize {
        self.deleted.load(Ordering::Relaxed)
    }
}

#[test]
fn what_is_imported_follows_the_tensor() {
    let _machine = rmm_sim::enter();
    let stream = stream();
    let import = |change: &dyn Fn(&mut Foreign), strides: Option<&[i64]>| {
        let mut foreign = Foreign::new(&[2, 3], strides);
        change(&mut foreign);
        // SAFETY: the memory is not used, and the tensor outlives the vector.
        let imported = unsafe { from_dlpack::<f32>(NonNull::from(&mut foreign.tensor), &stream) };
        let seen = imported.map(|it| (it.as_slice().as_ptr().0, it.as_slice().len()));
        assert_eq!(foreign.deleted(), 1, "the deleter is called once");
        seen.map_err(|error| error.kind())
    };
    let nothing = |_: &mut Foreign| ();
    assert_eq!(import(&nothing, None), Ok((4096, 6)));
    assert_eq!(import(&nothing, Some(&[3, 1])), Ok((4096, 6)));
    assert_eq!(import(&|it| it.tensor.dl_tensor.byte_offset = 8, None), Ok((4104, 6)));
    assert_eq!(import(&|it| it.tensor.dl_tensor.ndim = 0, None), Ok((4096, 1)));
    let host = DLDevice { device_type: DLDevice::CUDA_HOST, device_id: 0 };
    assert_eq!(import(&|it| it.tensor.dl_tensor.device = host, None), Ok((4096, 6)));
    // An empty tensor is freed at once.
    assert_eq!(import(&|it| it.shape[0] = 0, None), Ok((0, 0)));

    let (unsupported, invalid) = (Err(ErrorKind::Unsupported), Err(ErrorKind::InvalidArgument));
    assert_eq!(import(&nothing, Some(&[1, 2])), unsupported);
    assert_eq!(import(&|it| it.tensor.version.major = 2, None), unsupported);
    let elsewhere = |kind, id| DLDevice { device_type: kind, device_id: id };
    assert_eq!(import(&|it| it.tensor.dl_tensor.device = elsewhere(1, 0), None), unsupported);
    assert_eq!(import(&|it| it.tensor.dl_tensor.device = elsewhere(2, 1), None), invalid);
    assert_eq!(import(&|it| it.tensor.dl_tensor.device = elsewhere(2, -1), None), invalid);
    assert_eq!(import(&|it| it.tensor.dl_tensor.dtype.bits = 64, None), invalid);
    assert_eq!(import(&|it| it.tensor.dl_tensor.dtype.lanes = 2, None), invalid);
    assert_eq!(import(&|it| it.tensor.dl_tensor.byte_offset = 2, None), invalid);
    assert_eq!(import(&|it| it.tensor.dl_tensor.byte_offset = u64::MAX, None), invalid);
    assert_eq!(import(&|it| it.tensor.dl_tensor.ndim = -1, None), invalid);
    assert_eq!(import(&|it| it.shape[1] = -3, None), invalid);
    assert_eq!(import(&|it| it.shape[1] = i64::MAX, None), invalid);
    assert_eq!(import(&|it| it.tensor.dl_tensor.data = std::ptr::null_mut(), None), invalid);
}

#[test]
fn a_read_only_tensor_is_read() {
    let machine = rmm_sim::enter();
    let own = stream();
    let tensor = vector(&own).into_dlpack(&[6], on(&own)).expect("a tensor");
    // SAFETY: the tensor exists until its deleter is called.
    unsafe { (*tensor.as_ptr()).flags |= FLAG_READ_ONLY };
    // SAFETY: the tensor is valid, passed on once, and ready on `own`.
    let imported = unsafe { from_dlpack::<f32>(tensor, &own) }.expect("a vector");
    let imported = imported.into_vector().expect_err("it is read-only");
    assert!(imported.is_read_only());
    assert_eq!(imported.as_slice().to_vec_on(&own).expect("a copy")[..1], [1.0]);
    drop(imported);
    drop(own);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn a_shape_of_another_size_is_refused() {
    let machine = rmm_sim::enter();
    let own = stream();
    for shape in [&[7][..], &[2, 2], &[], &[-2, -3], &[i64::MAX, 2], &[6, 0]] {
        let refused = vector(&own).into_dlpack(shape, on(&own));
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::InvalidArgument, "{shape:?}");
    }
    let scalar = DeviceUVector::from_slice(&[1u8], &own).expect("a vector");
    drop(theirs(scalar.into_dlpack(&[], on(&own)).expect("a scalar")));
    let empty = DeviceBuffer::uninit(0, &own).expect("a buffer");
    let empty = theirs(empty.into_dlpack(&[4, 0], on(&own)).expect("a tensor"));
    // SAFETY: nothing changes the tensor.
    assert!(unsafe { empty.tensor() }.data.is_null());
    drop(empty);
    machine.assert_no_violations();
}

#[test]
fn the_deleter_after_the_driver_is_gone_calls_nothing() {
    let machine = rmm_sim::enter();
    let own = stream();
    let exported = theirs(vector(&own).into_dlpack(&[6], on(&own)).expect("a tensor"));
    let pinned = PinnedVec::from_slice(&[1u8]).expect("a vector");
    let pinned = theirs(pinned.into_dlpack(&[1], on(&own)).expect("a tensor"));
    let mut foreign = Foreign::new(&[2], None);
    // SAFETY: the memory is not used, and the tensor outlives the vector.
    let imported = unsafe { from_dlpack::<f32>(NonNull::from(&mut foreign.tensor), &own) };
    machine.kill();
    drop((exported, pinned, imported));
    assert_eq!(foreign.deleted(), 0);
}

#[test]
fn a_deleter_does_not_end_the_capture_of_another_thread() {
    let machine = rmm_sim::enter();
    let (own, captured) = (stream(), stream());
    let mut foreign = Foreign::new(&[2], None);
    // SAFETY: the memory is not used, and the tensor outlives the vector.
    let imported = unsafe { from_dlpack::<f32>(NonNull::from(&mut foreign.tensor), &own) };
    let driver = rmm_sim::driver();
    let mode = rmm_core::sys::CuCaptureMode::GLOBAL;
    // SAFETY: the stream exists.
    let code = unsafe { driver.cuStreamBeginCapture_v2(captured.as_raw(), mode) };
    assert!(code.is_success());
    std::thread::scope(|threads| {
        threads.spawn(|| machine.scope(|| drop(imported)));
    });
    assert_eq!(foreign.deleted(), 1);
    let mut graph = rmm_core::sys::CuGraph::NULL;
    // SAFETY: `graph` may be written to.
    let code = unsafe { driver.cuStreamEndCapture(captured.as_raw(), &raw mut graph) };
    assert!(code.is_success(), "it was not invalidated");
    // SAFETY: the graph exists and is used once.
    assert!(unsafe { driver.cuGraphDestroy(graph) }.is_success());
}

#[test]
fn an_imported_tensor_is_leaked_while_its_stream_is_captured() {
    let _machine = rmm_sim::enter();
    let own = stream();
    let mut foreign = Foreign::new(&[2], None);
    // SAFETY: the memory is not used, and the tensor outlives the vector.
    let imported = unsafe { from_dlpack::<f32>(NonNull::from(&mut foreign.tensor), &own) };
    let driver = rmm_sim::driver();
    let mode = rmm_core::sys::CuCaptureMode::GLOBAL;
    // SAFETY: the stream exists.
    let code = unsafe { driver.cuStreamBeginCapture_v2(own.as_raw(), mode) };
    assert!(code.is_success());
    drop(imported);
    assert_eq!(foreign.deleted(), 0);
    assert!(StreamRef::from(&own).is_capturing().expect("the driver says"), "it goes on");
    let mut graph = rmm_core::sys::CuGraph::NULL;
    // SAFETY: `graph` may be written to.
    let code = unsafe { driver.cuStreamEndCapture(own.as_raw(), &raw mut graph) };
    assert!(code.is_success(), "it was not invalidated");
    // SAFETY: the graph exists and is used once.
    assert!(unsafe { driver.cuGraphDestroy(graph) }.is_success());
}
