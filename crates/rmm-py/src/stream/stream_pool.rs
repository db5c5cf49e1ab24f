//! Pools of streams.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rmm_core::CudaStreamPool as Engine;

use crate::interpreter::drop_detached::DropDetached;
use crate::interpreter::errors::of_call;
use crate::interpreter::fork;
use crate::stream::{Stream, pool_flags};

/// Streams that are handed out in turn.
///
/// Parameters
/// ----------
/// pool_size : int
///     How many streams there are.
/// flags : CudaStreamFlags
///     The flags of each.
#[derive(Debug)]
#[pyclass(frozen, weakref, module = "rmm_rs.pylibrmm.cuda_stream_pool")]
pub(crate) struct CudaStreamPool {
    pool: DropDetached<Engine>,
}

#[pymethods]
impl CudaStreamPool {
    #[new]
    #[pyo3(signature = (pool_size=16, flags=None))]
    fn py_new(
        py: Python<'_>,
        pool_size: usize,
        flags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let flags = pool_flags(flags)?;
        if pool_size == 0 {
            return Err(PyRuntimeError::new_err("the size of a stream pool must not be zero"));
        }
        fork::check()?;
        let pool = py.detach(|| Engine::new(pool_size, flags));
        Ok(Self { pool: DropDetached::new(pool.map_err(|error| of_call(py, &error))?) })
    }

    /// A stream: the next one in turn, or the one with this number, modulo the size.
    #[pyo3(signature = (stream_id=None))]
    fn get_stream(slf: &Bound<'_, Self>, stream_id: Option<usize>) -> Stream {
        let pool = &slf.get().pool;
        let stream = match stream_id {
            Some(number) => pool.peek().get_at(number),
            None => pool.peek().get(),
        };
        let handle = stream.as_raw().as_raw().addr();
        Stream::new(handle, Some(stream.clone()), Some(slf.clone().into_any().unbind()))
    }

    /// The number of streams.
    fn get_pool_size(&self) -> usize {
        self.pool.peek().len()
    }
}
