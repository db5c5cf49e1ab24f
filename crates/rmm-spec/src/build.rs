//! Creates the resources of a specification.

use std::path::{Path, PathBuf};

use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, ArenaMemoryResourceBuilder, BinningMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, FixedSizeMemoryResource,
    FixedSizeMemoryResourceBuilder, LOG_FILE_VARIABLE, LimitingResourceAdaptor,
    LoggingResourceAdaptor, PoolMemoryResource, PoolMemoryResourceBuilder, RecorderResourceAdaptor,
    RecorderResourceAdaptorBuilder, TrackingResourceAdaptor,
};
use rmm_core::{AnyResource, Error};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaAsyncMemoryResourceBuilder, HostVirtualMemoryResource,
    NamedExport, SamHeadroomMemoryResource, VirtualMemoryResource, VirtualMemoryResourceBuilder,
};

use crate::plan::{Plan, PoolOptions};

impl Plan {
    pub(crate) fn build(&self) -> Result<AnyResource, Error> {
        Ok(match self {
            Self::Base(base) => base.build()?,
            Self::SamHeadroom { headroom } => {
                AnyResource::new(SamHeadroomMemoryResource::new(*headroom)?)
            }
            Self::CudaAsync { initial } => {
                let builder = CudaAsyncMemoryResource::builder();
                let builder = set(builder, *initial, CudaAsyncMemoryResourceBuilder::initial_size);
                AnyResource::new(builder.build()?)
            }
            Self::Virtual { export } => AnyResource::new(virtual_memory(*export).build()?),
            Self::HostVirtual { location, export } => {
                let host: HostVirtualMemoryResource =
                    virtual_memory(*export).build_at(*location)?;
                AnyResource::new(host)
            }
            Self::Pool { upstream, options } => options.build(upstream.as_deref())?,
            Self::Arena { upstream, size } => {
                let builder = ArenaMemoryResource::builder(upstream.build()?);
                let builder = set(builder, *size, ArenaMemoryResourceBuilder::arena_size);
                AnyResource::new(builder.build()?)
            }
            Self::FixedSize { upstream, block, blocks, max } => {
                let builder = FixedSizeMemoryResource::builder(upstream.build()?);
                let builder = set(builder, *block, FixedSizeMemoryResourceBuilder::block_size);
                let builder = set(builder, *blocks, FixedSizeMemoryResourceBuilder::blocks);
                let builder = set(builder, *max, FixedSizeMemoryResourceBuilder::maximum_size);
                AnyResource::new(builder.build()?)
            }
            Self::Binning { upstream, powers } => {
                let builder = BinningMemoryResource::builder(upstream.build()?);
                AnyResource::new(builder.bins_of_powers(powers.clone())?.build())
            }
            Self::Limiting { upstream, limit } => {
                AnyResource::new(LimitingResourceAdaptor::new(upstream.build()?, *limit))
            }
            Self::Aligned { upstream, alignment, threshold } => {
                let upstream = upstream.build()?;
                let aligned =
                    AlignedResourceAdaptor::with_threshold(upstream, *alignment, *threshold);
                AnyResource::new(aligned?)
            }
            Self::Logging { upstream, file, per_device, auto_flush, columns } => {
                let file = log_file(file.as_deref())?;
                let builder = LoggingResourceAdaptor::builder(upstream.build()?);
                let builder =
                    if *per_device { builder.file_of_device(&file) } else { builder.file(&file) };
                let logging = builder
                    .auto_flush(*auto_flush)
                    .columns(columns.iter().copied())
                    .build()
                    .map_err(|error| {
                        let message = format!("{}: {error}", file.display());
                        Error::invalid_argument("logging", message).with_source(error)
                    });
                AnyResource::new(logging?)
            }
            Self::Recorder { upstream, events, sites, oom_report } => {
                let builder = RecorderResourceAdaptor::builder(upstream.build()?).sites(*sites);
                let builder = set(builder, *events, RecorderResourceAdaptorBuilder::events);
                let directory = oom_report.as_deref();
                let builder = set(builder, directory, RecorderResourceAdaptorBuilder::oom_report);
                AnyResource::new(builder.build())
            }
            Self::Tracking { upstream, stacks } => {
                let builder = TrackingResourceAdaptor::builder(upstream.build()?);
                AnyResource::new(builder.capture_stacks(*stacks).build())
            }
            Self::FailureCallback { upstream, retries } => {
                let builder = FailureCallbackResourceAdaptor::builder(upstream.build()?);
                AnyResource::new(builder.max_retries(*retries).build(|_| true))
            }
            Self::Plain { adaptor, upstream } => adaptor.build(upstream.build()?),
            Self::Fallback { first, second } => {
                AnyResource::new(FallbackMemoryResource::new(first.build()?, second.build()?))
            }
        })
    }
}

fn virtual_memory(export: Option<NamedExport>) -> VirtualMemoryResourceBuilder {
    let builder = VirtualMemoryResource::builder();
    set(builder, export, VirtualMemoryResourceBuilder::export_named)
}

fn set<B, T>(builder: B, value: Option<T>, set: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

fn log_file(named: Option<&Path>) -> Result<PathBuf, Error> {
    let file = named
        .map(Path::to_owned)
        .or_else(|| std::env::var_os(LOG_FILE_VARIABLE).map(PathBuf::from));
    file.ok_or_else(|| {
        let message = format!("there is neither `file=` nor {LOG_FILE_VARIABLE}");
        Error::invalid_argument("logging", message)
    })
}

impl PoolOptions {
    fn build(self, upstream: Option<&Plan>) -> Result<AnyResource, Error> {
        let Self { initial, max, soft_max, preset } = self;
        let builder = match upstream {
            None => PoolMemoryResource::default_builder()?,
            Some(upstream) => PoolMemoryResource::builder(upstream.build()?),
        };
        let builder = set(builder, initial, PoolMemoryResourceBuilder::initial_size);
        let builder = set(builder, max, PoolMemoryResourceBuilder::maximum_size);
        let builder = set(builder, soft_max, PoolMemoryResourceBuilder::soft_maximum_size);
        let builder = set(builder, preset, PoolMemoryResourceBuilder::preset);
        Ok(AnyResource::new(builder.build()?))
    }
}
