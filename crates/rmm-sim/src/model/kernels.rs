//! Kernels that are registered by name, and the modules that they are found in.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use rmm_sys::{CuDevicePtr, CuResult};

use crate::model::handle::Slots;
use crate::model::kernel::KernelMemory;
use crate::model::operation::Operation;
use crate::model::signature::{Dimensions, Form, Parameter};

type Body = dyn FnMut(&mut KernelCall<'_, '_>) -> Result<(), CuResult> + Send;

/// A kernel that `cuModuleGetFunction` finds.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) name: &'static str,
    pub(crate) parameters: Arc<[Parameter]>,
    pub(crate) body: Arc<Mutex<Body>>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered")
            .field("name", &self.name)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

/// The registered kernels of a machine, and its loaded modules.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    /// A function's handle names an index.
    pub(crate) registered: Vec<Registered>,
    pub(crate) modules: Slots,
    /// The names that a program asked for and that were not registered.
    pub(crate) missing: BTreeSet<String>,
}

impl Kernels {
    /// Adds a kernel, or replaces the one of its name.
    pub(crate) fn register(&mut self, kernel: Registered) {
        match self.registered.iter_mut().find(|other| other.name == kernel.name) {
            Some(former) => *former = kernel,
            None => self.registered.push(kernel),
        }
    }

    /// # Errors
    /// `NOT_FOUND` for a name that is not registered, which is noted.
    pub(crate) fn find(&mut self, name: &str) -> Result<usize, CuResult> {
        let found = self.registered.iter().position(|kernel| kernel.name == name);
        found.ok_or_else(|| {
            self.missing.insert(name.to_owned());
            CuResult::NOT_FOUND
        })
    }
}

/// The arguments of one launch.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) parameters: Arc<[Parameter]>,
    /// The bytes that were passed for each.
    pub(crate) passed: Vec<Vec<u8>>,
    pub(crate) dimensions: Dimensions,
}

impl Arguments {
    /// The ranges that the kernel accesses.
    ///
    /// # Errors
    /// `INVALID_VALUE` if a number of elements is negative or too large.
    pub(crate) fn ranges(&self) -> Result<Vec<(CuDevicePtr, usize, Operation)>, CuResult> {
        let integers = self.integers();
        let mut ranges = Vec::new();
        for (parameter, passed) in self.parameters.iter().zip(&self.passed) {
            let Form::Array { operation, elements } = &parameter.form else { continue };
            let bytes = elements
                .count(&integers, self.dimensions)
                .and_then(|count| count.checked_mul(parameter.size))
                .ok_or(CuResult::INVALID_VALUE)?;
            if bytes > 0 {
                ranges.push((CuDevicePtr(u64::from_bytes(passed)), bytes, *operation));
            }
        }
        Ok(ranges)
    }

    fn integers(&self) -> BTreeMap<&str, i128> {
        let integer = |(parameter, passed): (&'_ Parameter, &Vec<u8>)| {
            let Form::Value { is_integer: true, is_signed } = parameter.form else { return None };
            let is_negative = is_signed && passed.last().is_some_and(|byte| byte & 0x80 != 0);
            let mut wide = [if is_negative { 0xff } else { 0 }; size_of::<i128>()];
            wide[..passed.len()].copy_from_slice(passed);
            Some(i128::from_le_bytes(wide))
        };
        let named = self.parameters.iter().zip(&self.passed);
        named.filter_map(|(p, v)| Some((p.name.as_str(), integer((p, v))?))).collect()
    }

    fn named(&self, name: &str) -> (&Parameter, &[u8]) {
        let mut all = self.parameters.iter().zip(&self.passed);
        let found = all.find(|(parameter, _)| parameter.name == name);
        let Some((parameter, passed)) = found else {
            panic!("the kernel has no parameter `{name}`")
        };
        (parameter, passed)
    }
}

/// A value that kernels pass and store. The integers and floating-point numbers are; a program may
/// add its own, such as a vector of four numbers.
pub trait KernelScalar: Copy {
    /// The value of these bytes, as many as the type has.
    fn from_bytes(bytes: &[u8]) -> Self;

    /// Appends its bytes.
    fn append_to(self, bytes: &mut Vec<u8>);
}

macro_rules! scalars {
    ($($type:ty),*) => {$(
        impl KernelScalar for $type {
            fn from_bytes(bytes: &[u8]) -> Self {
                <$type>::from_ne_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }

            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

scalars!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, f32, f64);

/// One run of a [registered kernel](crate::Machine::kernel): its arguments, and the memory that its
/// signature declares.
#[derive(Debug)]
pub struct KernelCall<'a, 'm> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) memory: &'a mut KernelMemory<'m>,
}

impl KernelCall<'_, '_> {
    /// The blocks of the grid (`gridDim`).
    pub fn grid(&self) -> [u32; 3] {
        self.arguments.dimensions.grid
    }

    /// The threads of a block (`blockDim`).
    pub fn block(&self) -> [u32; 3] {
        self.arguments.dimensions.block
    }

    /// The value of a parameter that is a number.
    ///
    /// # Panics
    /// If the kernel has no such parameter, or it is of another size. The machine reports a panic
    /// of a kernel as a violation.
    pub fn value<T: KernelScalar>(&self, name: &str) -> T {
        let (parameter, passed) = self.arguments.named(name);
        assert_eq!(parameter.passed(), size_of::<T>(), "`{name}` is of another size");
        T::from_bytes(passed)
    }

    /// The bytes that were passed for a parameter, such as a structure.
    ///
    /// # Panics
    /// If the kernel has no such parameter.
    pub fn bytes(&self, name: &str) -> &[u8] {
        self.arguments.named(name).1
    }

    /// Reads the elements of an array parameter.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` if the memory was freed since the launch.
    ///
    /// # Panics
    /// If the kernel has no such array, or its elements are of another size.
    pub fn read<T: KernelScalar>(&self, name: &str) -> Result<Vec<T>, CuResult> {
        let (pointer, bytes) = self.array::<T>(name);
        let mut read = vec![0; bytes];
        if bytes > 0 {
            self.memory.read(pointer, &mut read)?;
        }
        Ok(read.chunks_exact(size_of::<T>()).map(T::from_bytes).collect())
    }

    /// Writes the first elements of an array parameter.
    ///
    /// # Errors
    /// `ILLEGAL_ADDRESS` if there are fewer elements, the array is `const`, or the memory was freed
    /// since the launch.
    ///
    /// # Panics
    /// Where [`read`](Self::read) panics.
    pub fn write<T: KernelScalar>(&mut self, name: &str, elements: &[T]) -> Result<(), CuResult> {
        let (pointer, _) = self.array::<T>(name);
        let mut bytes = Vec::with_capacity(size_of_val(elements));
        for &element in elements {
            element.append_to(&mut bytes);
        }
        if bytes.is_empty() { Ok(()) } else { self.memory.write(pointer, &bytes) }
    }

    /// The address and the bytes of an array.
    fn array<T: KernelScalar>(&self, name: &str) -> (CuDevicePtr, usize) {
        let (parameter, passed) = self.arguments.named(name);
        let Form::Array { elements, .. } = &parameter.form else {
            panic!("the parameter `{name}` is not an array")
        };
        assert_eq!(parameter.size, size_of::<T>(), "the elements of `{name}` are of another size");
        let count = elements.count(&self.arguments.integers(), self.arguments.dimensions);
        let bytes = count.and_then(|count| count.checked_mul(parameter.size));
        (CuDevicePtr(u64::from_bytes(passed)), bytes.expect("the launch checked it"))
    }
}
