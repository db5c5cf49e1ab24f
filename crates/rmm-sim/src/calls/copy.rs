//! Copies and fills.
//!
//! What the host waits for is what CUDA documents and no more: a copy between device memory and a
//! fill of device memory only enqueue, even by their synchronous names. A copy from pageable memory
//! reads it before the call returns, a copy to pageable memory is complete when the call returns.

use std::ffi::{c_uchar, c_uint, c_void};

use rmm_sys::{CuDevicePtr, CuResult, CuStream};

use crate::calls::arguments::address;
use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::model::memory::{Place, Side};
use crate::model::operation::Operation;
use crate::model::work::Work;

/// A side of a copy: an address, and the memory that it may name.
type End = (usize, Side);

impl Session<'_> {
    fn copy_call(
        &mut self,
        to: End,
        from: End,
        bytes: usize,
        stream: CuStream,
        sync: bool,
    ) -> Result<(), CuResult> {
        let stream = self.stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let from = self.usable_place(("copy", Operation::Read), from.0, bytes, from.1)?;
        let to = self.usable_place(("copy", Operation::Write), to.0, bytes, to.1)?;
        let waits = to.is_pageable() || (sync && !(from.on_device_only() && to.on_device_only()));
        // A captured copy reads pageable memory when the graph is launched.
        let work = if from.is_pageable() && !waits && !self.captures.has(stream) {
            let mut staged = vec![0; bytes].into_boxed_slice();
            self.load(&from, &mut staged);
            Work::Staged { bytes: staged, to }
        } else {
            Work::Copy { from, to }
        };
        self.enqueue_and(stream, work, waits)
    }

    /// Enqueues work, and waits for it if `waits`.
    fn enqueue_and(&mut self, stream: u64, work: Work, waits: bool) -> Result<(), CuResult> {
        self.check_rights(stream, &work)?;
        let point = self.enqueue(stream, work)?;
        if waits && !self.captures.has(stream) {
            let known = self.clock_of(stream);
            let done = self.sim_time.end_of_stream(stream);
            self.finish([point]);
            self.sim_time.wait_until(done);
            self.join_host_clock(&known);
        }
        Ok(())
    }

    fn fill_call(
        &mut self,
        to: CuDevicePtr,
        pattern: u32,
        width: usize,
        count: usize,
        stream: CuStream,
        sync: bool,
    ) -> Result<(), CuResult> {
        let stream = self.stream(stream)?;
        if count == 0 {
            return Ok(());
        }
        let bytes = count.checked_mul(width).ok_or(CuResult::INVALID_VALUE)?;
        let to: Place =
            self.usable_place(("fill", Operation::Write), address(to), bytes, Side::Device)?;
        if !to.address.is_multiple_of(width) {
            return Err(CuResult::INVALID_VALUE);
        }
        let waits = sync && !to.on_device_only();
        // The pattern of one byte is the lowest byte, which comes first in memory only on
        // little-endian processors.
        let mut bytes = pattern.to_ne_bytes();
        if width == 1 {
            bytes[0] = pattern.to_le_bytes()[0];
        }
        self.enqueue_and(stream, Work::Fill { to, pattern: bytes, width }, waits)
    }
}

driver_calls! {
    fn cuMemcpy(target: CuDevicePtr, source: CuDevicePtr, bytes: usize) by [target, source] |session| {
        session.copy_call((address(target), Side::Any), (address(source), Side::Any), bytes, CuStream::NULL, true)
    }

    fn cuMemcpyAsync(target: CuDevicePtr, source: CuDevicePtr, bytes: usize, stream: CuStream) by [stream, target, source] |session| {
        session.copy_call((address(target), Side::Any), (address(source), Side::Any), bytes, stream, false)
    }

    fn cuMemcpyHtoD_v2(target: CuDevicePtr, source: *const c_void, bytes: usize) by [target, source] |session| {
        session.copy_call((address(target), Side::DeviceByName), (source.address(), Side::Host), bytes, CuStream::NULL, true)
    }

    fn cuMemcpyDtoH_v2(target: *mut c_void, source: CuDevicePtr, bytes: usize) by [source, target] |session| {
        session.copy_call((target.address(), Side::Host), (address(source), Side::DeviceByName), bytes, CuStream::NULL, true)
    }

    fn cuMemcpyHtoDAsync_v2(target: CuDevicePtr, source: *const c_void, bytes: usize, stream: CuStream) by [stream, target, source] |session| {
        session.copy_call((address(target), Side::DeviceByName), (source.address(), Side::Host), bytes, stream, false)
    }

    fn cuMemcpyDtoHAsync_v2(target: *mut c_void, source: CuDevicePtr, bytes: usize, stream: CuStream) by [stream, source, target] |session| {
        session.copy_call((target.address(), Side::Host), (address(source), Side::DeviceByName), bytes, stream, false)
    }

    fn cuMemcpyDtoDAsync_v2(target: CuDevicePtr, source: CuDevicePtr, bytes: usize, stream: CuStream) by [stream, target, source] |session| {
        session.copy_call((address(target), Side::Device), (address(source), Side::Device), bytes, stream, false)
    }

    fn cuMemsetD8_v2(target: CuDevicePtr, value: c_uchar, count: usize) by [target] |session| {
        session.fill_call(target, u32::from(value), 1, count, CuStream::NULL, true)
    }

    fn cuMemsetD32_v2(target: CuDevicePtr, value: c_uint, count: usize) by [target] |session| {
        session.fill_call(target, value, 4, count, CuStream::NULL, true)
    }

    fn cuMemsetD8Async(target: CuDevicePtr, value: c_uchar, count: usize, stream: CuStream) by [stream, target] |session| {
        session.fill_call(target, u32::from(value), 1, count, stream, false)
    }

    fn cuMemsetD32Async(target: CuDevicePtr, value: c_uint, count: usize, stream: CuStream) by [stream, target] |session| {
        session.fill_call(target, value, 4, count, stream, false)
    }
}
