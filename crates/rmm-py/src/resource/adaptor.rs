//! The common parts of the classes of adaptors.

/// A class over an adaptor of the engine.
macro_rules! adaptor {
    ($(#[$docs:meta])* $name:ident($engine:ident)) => {
        $(#[$docs])*
        #[derive(Debug)]
        #[pyclass(
            subclass,
            frozen,
            extends = crate::resource::UpstreamResourceAdaptor,
            module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
        )]
        pub(crate) struct $name {
            engine: crate::interpreter::drop_detached::DropDetached<$engine<rmm_core::AnyResource>>,
        }

        impl $name {
            fn over(upstream: crate::resource::Upstream<'_>, engine: $engine<rmm_core::AnyResource>) -> PyClassInitializer<Self> {
                let any = rmm_core::AnyResource::new(engine.clone());
                crate::resource::UpstreamResourceAdaptor::over(upstream, any)
                    .add_subclass(Self { engine: crate::interpreter::drop_detached::DropDetached::new(engine) })
            }
        }
    };
}

/// A class over an adaptor of the engine that has nothing to ask.
macro_rules! silent_adaptor {
    ($(#[$docs:meta])* $name:ident) => {
        $(#[$docs])*
        #[derive(Debug)]
        #[pyclass(
            subclass,
            frozen,
            extends = crate::resource::UpstreamResourceAdaptor,
            module = "rmm_rs.pylibrmm.memory_resource._memory_resource"
        )]
        pub(crate) struct $name;
    };
}

pub(crate) use {adaptor, silent_adaptor};
