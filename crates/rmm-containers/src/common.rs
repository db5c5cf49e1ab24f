//! Methods that several device containers have in common, documented once.

/// Constructors that set the contents, for a type with `uninit_in`, `fill` and `copy_from_slice`.
///
/// `$noun` is the container in words, `$parts` what it has `len` of, `$part` one of these. Those
/// from a slice are written by hand: errors of the compiler show their signatures.
macro_rules! filled_constructors {
    ($noun:literal of $parts:literal, each $part:literal; zero: $zero:literal; $element:ty) => {
        #[doc = concat!("A ", $noun, " of `len` ", $parts, " ", $zero, ", set in the order of")]
        /// `stream`.
        ///
        /// # Errors
        /// The errors of [`uninit`](Self::uninit); whatever the driver reports.
        pub fn zeroed<'s>(
            len: usize,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<Self, rmm_core::Error> {
            Self::filled(bytemuck::Zeroable::zeroed(), len, stream)
        }

        #[doc = concat!("A ", $noun, " of `len` ", $parts, " ", $zero, ", set in the order of")]
        /// `stream`, from `resource`.
        ///
        /// # Errors
        /// The errors of [`zeroed`](Self::zeroed).
        pub fn zeroed_in<'s>(
            len: usize,
            stream: impl Into<rmm_core::StreamRef<'s>>,
            resource: &impl rmm_core::DeviceResource,
        ) -> Result<Self, rmm_core::Error> {
            Self::filled_in(bytemuck::Zeroable::zeroed(), len, stream, resource)
        }

        #[doc = concat!("A ", $noun, " of `len` ", $parts, " that all are `value`, set in the")]
        /// order of `stream`.
        ///
        /// # Errors
        /// The errors of [`zeroed`](Self::zeroed).
        pub fn filled<'s>(
            value: $element,
            len: usize,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<Self, rmm_core::Error> {
            let stream = stream.into();
            Self::filled_in(value, len, stream, &$crate::block::resource_for(stream)?)
        }

        #[doc = concat!("A ", $noun, " of `len` ", $parts, " that all are `value`, set in the")]
        /// order of `stream`, from `resource`.
        ///
        /// # Errors
        /// The errors of [`zeroed`](Self::zeroed).
        pub fn filled_in<'s>(
            value: $element,
            len: usize,
            stream: impl Into<rmm_core::StreamRef<'s>>,
            resource: &impl rmm_core::DeviceResource,
        ) -> Result<Self, rmm_core::Error> {
            let mut new = Self::uninit_in(len, stream, resource)?;
            new.fill(value)?;
            Ok(new)
        }

        #[doc = concat!("A ", $noun, " of `len` ", $parts, ", ", $part, " at index `i` being")]
        /// `value(i)`. The copy from the host is complete on return.
        ///
        /// # Errors
        /// The errors of [`from_slice`](Self::from_slice).
        pub fn from_fn<'s>(
            value: impl FnMut(usize) -> $element,
            len: usize,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<Self, rmm_core::Error> {
            let stream = stream.into();
            Self::from_fn_in(value, len, stream, &$crate::block::resource_for(stream)?)
        }

        #[doc = concat!("A ", $noun, " of `len` ", $parts, ", ", $part, " at index `i` being")]
        /// `value(i)`, from `resource`. The copy from the host is complete on return.
        ///
        /// # Errors
        /// The errors of [`from_slice`](Self::from_slice).
        pub fn from_fn_in<'s>(
            value: impl FnMut(usize) -> $element,
            len: usize,
            stream: impl Into<rmm_core::StreamRef<'s>>,
            resource: &impl rmm_core::DeviceResource,
        ) -> Result<Self, rmm_core::Error> {
            // First the device memory, whose size is checked.
            let mut new = Self::uninit_in(len, stream, resource)?;
            new.copy_from_slice(&(0..len).map(value).collect::<Vec<_>>())?;
            Ok(new)
        }
    };
}
pub(crate) use filled_constructors;

/// Use by a program's own work, for a type with `as_slice` and `as_slice_mut`.
macro_rules! uses_on_streams {
    ($parts:literal, $element:ty) => {
        #[doc = concat!("Gives the address to work that reads the ", $parts, " on `stream`, see")]
        /// [`DeviceSlice::use_on`](crate::DeviceSlice::use_on).
        ///
        /// # Errors
        /// Whatever the driver reports.
        pub fn use_on<'s>(
            &self,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<$crate::OnStream<'s, $crate::DeviceSlice<'_, $element>>, rmm_core::Error> {
            self.as_slice().use_on(stream)
        }

        #[doc = concat!("Gives the address to work that reads and writes the ", $parts, " on")]
        /// `stream`, see [`DeviceSlice::use_on`](crate::DeviceSlice::use_on).
        ///
        /// # Errors
        /// Whatever the driver reports.
        pub fn use_on_mut<'s>(
            &mut self,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<$crate::OnStream<'s, $crate::DeviceSliceMut<'_, $element>>, rmm_core::Error> {
            self.as_slice_mut().into_use_on(stream)
        }
    };
}
pub(crate) use uses_on_streams;

/// Copies to the host, for a type with `copy_to_slice_on`, `as_slice` and `stream`.
macro_rules! copies_to_host {
    ($noun:literal, $parts:literal, $element:ty) => {
        #[doc = concat!("Copies the first ", $parts, " to the host, on the stream of the ", $noun)]
        /// ; complete on return.
        ///
        /// # Errors
        #[doc = concat!(
            "[`ErrorKind::OutOfRange`](rmm_core::ErrorKind::OutOfRange) if `target` is longer than the ",
            $noun, "; whatever the copy reports."
        )]
        pub fn copy_to_slice(&self, target: &mut [$element]) -> Result<(), rmm_core::Error> {
            self.copy_to_slice_on(target, self.stream())
        }

        #[doc = concat!("The ", $parts, ", copied to the host on the stream of the ", $noun, ";")]
        /// complete on return.
        ///
        /// # Errors
        /// Whatever the copy reports.
        pub fn to_vec(&self) -> Result<Vec<$element>, rmm_core::Error> {
            self.to_vec_on(self.stream())
        }

        #[doc = concat!("The ", $parts, ", copied to the host on `stream`: after all work enqueued")]
        #[doc = concat!("on it, and on the stream of the ", $noun, ", so far. Complete on return.")]
        ///
        /// # Errors
        /// Whatever the copy reports.
        pub fn to_vec_on<'s>(
            &self,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<Vec<$element>, rmm_core::Error> {
            self.as_slice().to_vec_on(stream)
        }
    };
}
pub(crate) use copies_to_host;

/// What a container over a [`DeviceBuffer`](crate::DeviceBuffer) passes on to it, by way of a
/// field; for a type with a function `over` that wraps the field's value.
macro_rules! passed_on {
    ($noun:literal, $field:ident) => {
        #[doc = concat!("Names the ", $noun, ", see")]
        /// [`DeviceBuffer::with_name`](crate::DeviceBuffer::with_name).
        #[must_use]
        pub fn with_name(mut self, name: impl Into<String>) -> Self {
            self.$field = self.$field.with_name(name);
            self
        }

        #[doc = concat!("The name, if the ", $noun, " [has one](Self::with_name).")]
        pub fn name(&self) -> Option<&str> {
            self.$field.name()
        }

        /// The resource that the memory came from.
        #[doc(alias = "memory_resource")]
        pub fn resource(&self) -> &rmm_core::AnyResource {
            self.$field.resource()
        }

        #[doc = concat!("The stream that the ", $noun, " belongs to, see")]
        /// [`DeviceBuffer::stream`](crate::DeviceBuffer::stream).
        pub fn stream(&self) -> &rmm_core::CudaStream {
            self.$field.stream()
        }

        #[doc = concat!("The device that the ", $noun, " was made on.")]
        ///
        /// # Errors
        /// The errors of [`DeviceBuffer::device`](crate::DeviceBuffer::device).
        pub fn device(&self) -> Result<rmm_core::Device, rmm_core::Error> {
            self.$field.device()
        }

        #[doc = concat!("Moves the ", $noun, " to another stream, see")]
        /// [`DeviceBuffer::set_stream`](crate::DeviceBuffer::set_stream).
        ///
        /// # Errors
        /// The errors of [`DeviceBuffer::set_stream`](crate::DeviceBuffer::set_stream).
        pub fn set_stream<'s>(
            &mut self,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<(), rmm_core::Error> {
            self.$field.set_stream(stream)
        }

        #[doc = concat!("Makes the stream of the ", $noun, " wait for all work that other")]
        #[doc = concat!("streams do on the ", $noun, ", see")]
        /// [`DeviceBuffer::wait_for_other_streams`](crate::DeviceBuffer::wait_for_other_streams).
        ///
        /// # Errors
        /// The errors of that method.
        pub fn wait_for_other_streams(&mut self) -> Result<(), rmm_core::Error> {
            self.$field.wait_for_other_streams()
        }

        #[doc = concat!("Copies the contents to a new ", $noun, " on the same stream, from the")]
        /// same resource and with the same alignment, see
        /// [`DeviceBuffer::try_clone`](crate::DeviceBuffer::try_clone).
        ///
        /// # Errors
        /// The resource's error; whatever the copy reports.
        pub fn try_clone(&self) -> Result<Self, rmm_core::Error> {
            self.$field.try_clone().map(Self::over)
        }

        #[doc = concat!("Copies the contents to a new ", $noun, " on another stream, from the")]
        /// same resource and with the same alignment, see
        /// [`DeviceBuffer::try_clone_on`](crate::DeviceBuffer::try_clone_on).
        ///
        /// # Errors
        /// The errors of [`try_clone`](Self::try_clone).
        pub fn try_clone_on<'s>(
            &self,
            stream: impl Into<rmm_core::StreamRef<'s>>,
        ) -> Result<Self, rmm_core::Error> {
            self.$field.try_clone_on(stream).map(Self::over)
        }

        #[doc = concat!("Copies the contents to a new ", $noun, " on another stream, from")]
        /// `resource`, with the same alignment, see
        /// [`DeviceBuffer::try_clone_in`](crate::DeviceBuffer::try_clone_in).
        ///
        /// # Errors
        /// The errors of [`try_clone`](Self::try_clone).
        pub fn try_clone_in<'s>(
            &self,
            stream: impl Into<rmm_core::StreamRef<'s>>,
            resource: &impl rmm_core::DeviceResource,
        ) -> Result<Self, rmm_core::Error> {
            self.$field.try_clone_in(stream, resource).map(Self::over)
        }
    };
}
pub(crate) use passed_on;
