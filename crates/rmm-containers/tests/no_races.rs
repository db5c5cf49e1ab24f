//! Random safe programs on several streams and threads: no two accesses race, and each read sees
//! the writes before it. The results are compared with host vectors; the software device checks the
//! order.

use std::mem;
use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceSliceMut, DeviceUVector, PinnedVec};
use rmm_core::{AnyResource, Context, CudaStream, DevicePtr, Error, StreamFlags, StreamRef};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource};
use rmm_sim::{Kernel, Machine, Schedule};

const VECTORS: usize = 3;
const STREAMS: usize = 5;

/// A part of a vector, in fractions of its length.
type Part = (u8, u8);

#[derive(Clone, Debug)]
enum Step {
    Fill { vector: usize, part: Part, value: u32, stream: usize },
    Copy { from: usize, to: usize, part: Part, stream: usize },
    Halves { vector: usize, at: u8, streams: [usize; 2] },
    Kernel { vector: usize, part: Part, value: u32, stream: usize, leaked: bool },
    ReadingKernel { vector: usize, part: Part, stream: usize, leaked: bool },
    Nested { vector: usize, outer: usize, inner: usize },
    Write { vector: usize, part: Part, value: u32, stream: usize },
    Read { vector: usize, part: Part, stream: usize },
    SetElement { vector: usize, at: u8, value: u32 },
    SetStream { vector: usize, stream: usize },
    Resize { vector: usize, len: usize },
    Shrink { vector: usize },
    Clone { vector: usize, stream: usize },
    Upload { vector: usize, stream: usize },
    Download { vector: usize, stream: usize },
    HostRead,
    HostWrite { value: u32 },
}

struct Harness {
    machine: Machine,
    streams: Vec<CudaStream>,
    vectors: Vec<(DeviceUVector<u32>, Vec<u32>)>,
    pinned: (PinnedVec<u32>, Vec<u32>),
}

fn range_of(len: usize, (start, end): Part) -> Range<usize> {
    let at = |fraction: u8| usize::from(fraction) * len / 255;
    at(start.min(end))..at(start.max(end))
}

/// The range of a part, as [`range_of`] has it, but all of `0..len` where that is empty: a kernel
/// cannot declare an empty range.
fn non_empty_range_of(len: usize, part: Part) -> Range<usize> {
    let Range { start, end } = range_of(len, part);
    if start < end { start..end } else { 0..len }
}

fn write(pointer: DevicePtr, count: usize, value: u32) -> Kernel {
    let bytes = value.to_ne_bytes().repeat(count);
    Kernel::new("write", move |memory| memory.write(pointer, &bytes).expect("declared"))
        .writes(pointer, 4 * count)
}

impl Harness {
    fn new(machine: &Machine, resource: &AnyResource) -> Result<Self, Error> {
        let free = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0);
        let streams = vec![
            free()?,
            free()?,
            CudaStream::new()?,
            CudaStream::legacy(),
            CudaStream::per_thread(),
        ];
        let vector = |stream: &CudaStream| {
            let elements = vec![0; 100];
            Ok((DeviceUVector::from_slice_in(&elements, stream, resource)?, elements))
        };
        Ok(Self {
            machine: machine.clone(),
            vectors: streams[..VECTORS].iter().map(vector).collect::<Result<_, Error>>()?,
            pinned: (PinnedVec::zeroed(200)?, vec![0; 200]),
            streams,
        })
    }

    /// Launches a kernel on memory of a container. On a GPU, this is `unsafe`.
    fn launch(&self, stream: StreamRef<'_>, kernel: Kernel) {
        self.machine.launch(stream.as_raw(), kernel).expect("the stream and the memory exist");
    }

    fn take(&mut self, step: &Step) -> Result<(), Box<dyn std::error::Error>> {
        let streams = self.streams.clone();
        match *step {
            Step::Fill { vector, part, value, stream } => {
                let (elements, expected) = &mut self.vectors[vector];
                let range = range_of(expected.len(), part);
                elements.as_slice_mut().slice(range.clone())?.fill_on(value, &streams[stream])?;
                expected[range].fill(value);
            }
            Step::Copy { from, to, part, stream } if from != to => {
                let [source, target] = self.vectors.get_disjoint_mut([from, to])?;
                let range = range_of(source.1.len().min(target.1.len()), part);
                target
                    .0
                    .as_slice_mut()
                    .slice(range.clone())?
                    .copy_from_on(source.0.as_slice().slice(range.clone())?, &streams[stream])?;
                target.1[range.clone()].copy_from_slice(&source.1[range]);
            }
            Step::Copy { from, .. } => {
                // A copy within one vector.
                let (elements, expected) = &mut self.vectors[from];
                let half = expected.len() / 2;
                let (mut left, right) = elements.as_slice_mut().split_at(half)?;
                left.copy_from_on(right.as_slice().slice(..half)?, &streams[0])?;
                expected.copy_within(half..2 * half, 0);
            }
            Step::Halves { vector, at, streams: [left, right] } => {
                let (elements, expected) = &mut self.vectors[vector];
                let at = usize::from(at) * expected.len() / 255;
                let (mut first, mut second) = elements.as_slice_mut().split_at(at)?;
                let fill = |half: &mut DeviceSliceMut<'_, u32>, stream: usize| {
                    half.fill_on(7, &streams[stream])?;
                    half.fill_on(8, &streams[stream])
                };
                fill(&mut first, left)?;
                fill(&mut second, right)?;
                expected.fill(8);
            }
            Step::Nested { vector, outer, inner } => {
                let (elements, expected) = &mut self.vectors[vector];
                let mut slice = elements.as_slice_mut();
                slice.fill_on(1, &streams[outer])?;
                slice.reborrow().fill_on(2, &streams[inner])?;
                slice.fill_on(3, &streams[outer])?;
                expected.fill(3);
            }
            Step::Write { vector, part, value, stream } => {
                let (elements, expected) = &mut self.vectors[vector];
                let range = range_of(expected.len(), part);
                let values = vec![value; range.len()];
                let mut slice = elements.as_slice_mut().slice(range.clone())?;
                slice.copy_from_slice_on(&values, &streams[stream])?;
                expected[range].fill(value);
            }
            Step::Read { vector, part, stream } => {
                let (elements, expected) = &self.vectors[vector];
                let range = range_of(expected.len(), part);
                let found =
                    elements.as_slice().slice(range.clone())?.to_vec_on(&streams[stream])?;
                assert_eq!(found, expected[range]);
            }
            Step::SetElement { vector, at, value } => {
                let (elements, expected) = &mut self.vectors[vector];
                let at = usize::from(at) % expected.len();
                elements.set_element_async(at, value)?;
                expected[at] = value;
            }
            Step::SetStream { vector, stream } => {
                self.vectors[vector].0.set_stream(&streams[stream])?;
            }
            Step::Resize { vector, len } => {
                let (elements, expected) = &mut self.vectors[vector];
                let kept = expected.len().min(len);
                elements.resize(len)?;
                elements.as_slice_mut().slice(kept..)?.fill_on(5, &streams[0])?;
                expected.resize(len, 5);
                expected[kept..].fill(5);
            }
            Step::Shrink { vector } => self.vectors[vector].0.shrink_to_fit()?,
            Step::Clone { vector, stream } => {
                let cloned = self.vectors[vector].0.try_clone_on(&streams[stream])?;
                self.vectors[vector].0 = cloned;
            }
            ref outside => self.take_outside(outside, &streams)?,
        }
        Ok(())
    }

    /// Takes a step of a kernel or of the host.
    fn take_outside(
        &mut self,
        step: &Step,
        streams: &[CudaStream],
    ) -> Result<(), Box<dyn std::error::Error>> {
        match *step {
            Step::Kernel { vector, part, value, stream, leaked } => {
                let (elements, expected) = &mut self.vectors[vector];
                let range = non_empty_range_of(expected.len(), part);
                let slice = elements.as_slice_mut().slice(range.clone())?;
                let used = slice.into_use_on(&streams[stream])?;
                let kernel = write(used.as_ptr(), range.len(), value);
                self.machine.launch(used.stream().as_raw(), kernel)?;
                expected[range].fill(value);
                if leaked {
                    let _leaked = mem::ManuallyDrop::new(used);
                }
            }
            Step::ReadingKernel { vector, part, stream, leaked } => {
                let (elements, expected) = &self.vectors[vector];
                let range = non_empty_range_of(expected.len(), part);
                let used = elements.as_slice().slice(range)?.use_on(&streams[stream])?;
                let kernel = Kernel::new("read", |_| ()).reads(used.as_ptr(), used.bytes());
                self.launch(used.stream(), kernel);
                if leaked {
                    let _leaked = mem::ManuallyDrop::new(used);
                }
            }
            Step::Upload { vector, stream } => {
                let (elements, expected) = &mut self.vectors[vector];
                let source = self.pinned.0.device_slice().slice(..expected.len())?;
                elements.as_slice_mut().copy_from_on(source, &streams[stream])?;
                let len = expected.len();
                expected.copy_from_slice(&self.pinned.1[..len]);
            }
            Step::Download { vector, stream } => {
                let (elements, expected) = &self.vectors[vector];
                self.pinned.0.copy_from_device(elements.as_slice(), &streams[stream])?;
                self.pinned.1[..expected.len()].copy_from_slice(expected);
            }
            Step::HostRead => {
                let pointer = self.pinned.0.device_slice().as_ptr();
                let found = self.pinned.0.as_slice()?;
                self.machine.host_reads(pointer, 800)?;
                assert_eq!(found, self.pinned.1);
            }
            Step::HostWrite { value } => {
                let pointer = self.pinned.0.device_slice().as_ptr();
                self.pinned.0.as_mut_slice()?.fill(value);
                self.machine.host_writes(pointer, 800)?;
                self.pinned.1.fill(value);
            }
            _ => unreachable!("the other steps are taken above"),
        }
        Ok(())
    }

    /// Asserts that all vectors hold the expected elements.
    fn check(&self) -> Result<(), Error> {
        for (elements, expected) in &self.vectors {
            assert_eq!(elements.to_vec_on(&self.streams[1])?, *expected);
        }
        assert_eq!(self.pinned.0.as_slice()?, self.pinned.1);
        Ok(())
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, bool)>> {
    let vector = 0..VECTORS;
    let stream = 0..STREAMS;
    let part = any::<Part>();
    let value = any::<u32>();
    let step = prop_oneof![
        4 => (vector.clone(), part, value, stream.clone())
            .prop_map(|(vector, part, value, stream)| Step::Fill { vector, part, value, stream }),
        4 => (vector.clone(), vector.clone(), part, stream.clone())
            .prop_map(|(from, to, part, stream)| Step::Copy { from, to, part, stream }),
        2 => (vector.clone(), any::<u8>(), stream.clone(), stream.clone())
            .prop_map(|(vector, at, a, b)| Step::Halves { vector, at, streams: [a, b] }),
        3 => (vector.clone(), part, value, stream.clone(), any::<bool>()).prop_map(
            |(vector, part, value, stream, leaked)| {
                Step::Kernel { vector, part, value, stream, leaked }
            }
        ),
        3 => (vector.clone(), part, stream.clone(), any::<bool>()).prop_map(
            |(vector, part, stream, leaked)| {
                Step::ReadingKernel { vector, part, stream, leaked }
            }
        ),
        2 => (vector.clone(), stream.clone(), stream.clone())
            .prop_map(|(vector, outer, inner)| Step::Nested { vector, outer, inner }),
        1 => (vector.clone(), part, value, stream.clone())
            .prop_map(|(vector, part, value, stream)| Step::Write { vector, part, value, stream }),
        2 => (vector.clone(), part, stream.clone())
            .prop_map(|(vector, part, stream)| Step::Read { vector, part, stream }),
        1 => (vector.clone(), any::<u8>(), value)
            .prop_map(|(vector, at, value)| Step::SetElement { vector, at, value }),
        1 => (vector.clone(), stream.clone())
            .prop_map(|(vector, stream)| Step::SetStream { vector, stream }),
        1 => (vector.clone(), 1..200usize)
            .prop_map(|(vector, len)| Step::Resize { vector, len }),
        1 => vector.clone().prop_map(|vector| Step::Shrink { vector }),
        2 => (vector.clone(), stream.clone())
            .prop_map(|(vector, stream)| Step::Clone { vector, stream }),
        3 => (vector.clone(), stream.clone())
            .prop_map(|(vector, stream)| Step::Upload { vector, stream }),
        3 => (vector, stream).prop_map(|(vector, stream)| Step::Download { vector, stream }),
        1 => Just(Step::HostRead),
        1 => value.prop_map(|value| Step::HostWrite { value }),
    ];
    // Some steps run on another thread, which has its own default stream.
    prop::collection::vec((step, prop::bool::weighted(0.2)), 1..40)
}

fn run(schedule: Schedule, over_pool: bool, steps: &[(Step, bool)]) -> TestCaseResult {
    let machine = Machine::builder().memory(64 << 20).schedule(schedule).build();
    let entered = machine.enter();
    let resource = if over_pool {
        AnyResource::new(
            PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("no call fails"),
        )
    } else {
        AnyResource::new(CudaAsyncMemoryResource::new().expect("no call fails"))
    };
    let mut harness = Harness::new(&machine, &resource).expect("no call fails");
    for (step, on_another_thread) in steps {
        if *on_another_thread {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let _entered = machine.enter();
                    Context::current().expect("a context, for kernels on default streams");
                    harness.take(step).expect("no call fails");
                });
                other.join().expect("the thread does not panic");
            });
        } else {
            harness.take(step).expect("no call fails");
        }
        let violations = machine.violations();
        prop_assert!(violations.is_empty(), "{step:?}: {}", violations[0]);
    }
    harness.check().expect("no call fails");
    drop((harness, resource, entered));
    machine.run_all();
    let violations = machine.violations();
    prop_assert!(violations.is_empty(), "at the end: {}", violations[0]);
    prop_assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn safe_programs_are_in_order(seed in any::<u64>(), over_pool: bool, steps in steps()) {
        run(Schedule::Seeded(seed), over_pool, &steps)?;
    }

    #[test]
    fn safe_programs_are_in_order_under_the_lazy_schedule(over_pool: bool, steps in steps()) {
        run(Schedule::Lazy, over_pool, &steps)?;
    }
}
