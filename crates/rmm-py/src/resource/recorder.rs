//! The adaptor that keeps the last calls.

use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rmm_adaptors::RecorderResourceAdaptor as Recorder;

use crate::interpreter::truth::Truth;
use crate::resource::Upstream;
use crate::resource::adaptor::adaptor;

adaptor! {
    /// Keeps the last calls and what was live before them, to write them as a log when it is
    /// needed. Not in RMM.
    ///
    /// Parameters
    /// ----------
    /// upstream_mr : DeviceMemoryResource
    /// events : int
    ///     How many calls are kept, 48 bytes of host memory each; rounded up to a power of two.
    /// sites : bool
    ///     Whether the lines of Python that allocate are kept.
    /// oom_report : str, optional
    ///     A directory. When a request fails for lack of memory, the log is written there before
    ///     the error is raised, which names the file: at most three times in a process.
    RecorderResourceAdaptor(Recorder)
}

#[pymethods]
impl RecorderResourceAdaptor {
    #[new]
    #[pyo3(
        signature = (upstream_mr, events=65536, sites=Truth(true), oom_report=None),
        text_signature = "(upstream_mr, events=65536, sites=True, oom_report=None)"
    )]
    fn py_new(
        upstream_mr: Upstream<'_>,
        events: usize,
        sites: Truth,
        oom_report: Option<PathBuf>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let builder = Recorder::builder(upstream_mr.engine()?).events(events).sites(sites.0);
        let builder = match oom_report {
            Some(directory) => builder.oom_report(directory),
            None => builder,
        };
        Ok(Self::over(upstream_mr, builder.build()))
    }

    /// Writes what is kept to a file, as a log with tag, call site and device.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let engine = self.engine.get()?;
        py.detach(|| engine.save(path)).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// How many calls there were, those that are no longer kept included.
    #[getter]
    fn events(&self) -> u64 {
        self.engine.peek().events()
    }

    /// The most calls that are kept.
    #[getter]
    fn capacity(&self) -> usize {
        self.engine.peek().capacity()
    }
}

/// Adds the class.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RecorderResourceAdaptor>()
}
