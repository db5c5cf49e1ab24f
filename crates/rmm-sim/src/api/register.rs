//! Registering kernels by name, for programs that launch them through the driver.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use rmm_sys::CuResult;

use crate::engine::machine::Machine;
use crate::model::kernels::{KernelCall, Registered};
use crate::model::signature;

/// Checks the parameters of a kernel as [`Machine::kernel`] reads them, for programs that get them
/// from a user.
///
/// ```
/// assert!(rmm_sim::check_signature("float y[n], size_t n").is_ok());
/// let error = rmm_sim::check_signature("float y[m], size_t n").unwrap_err();
/// assert_eq!(error, "`m` is not an integer parameter");
/// ```
///
/// # Errors
/// What is wrong with them.
pub fn check_signature(parameters: &str) -> Result<(), String> {
    signature::parse(parameters).map(drop)
}

impl Machine {
    /// Registers a kernel, so that a program that loads device code finds and launches it here:
    /// `cuModuleGetFunction` finds `name` in any module, and `cuLaunchKernel` reads the arguments
    /// by `signature`.
    ///
    /// The signature is the list of parameters as C declares them. An array parameter gives its
    /// number of elements, which the checks take as what the kernel accesses:
    ///
    /// | parameter | is |
    /// |---|---|
    /// | `float y[n]` | memory that the kernel writes, and may read |
    /// | `const float x[n]` | memory that it reads |
    /// | `_Atomic unsigned int count[1]` | memory that it updates atomically |
    /// | `float a`, `size_t n`, `int8_t i`, `half h` | a value |
    /// | `struct(24) shape` | a structure of 24 bytes, passed by value |
    /// | `float *unused` | an address that the kernel does not access |
    ///
    /// A number of elements is a sum of products of numbers, integer parameters, and `gridDim.x`,
    /// `blockDim.x` and so on. The kernel runs `body` in stream order, as often as it is launched.
    /// A second kernel of a name replaces the first, and functions that were found before launch
    /// it.
    ///
    /// ```
    /// use rmm_sim::Machine;
    ///
    /// let machine = Machine::new();
    /// let signature = "float y[n], const float x[n], float a, size_t n";
    /// machine.kernel("saxpy", signature, |call| {
    ///     let (a, x) = (call.value::<f32>("a"), call.read::<f32>("x")?);
    ///     let y = call.read::<f32>("y")?;
    ///     let sums: Vec<f32> = y.iter().zip(x).map(|(y, x)| a * x + y).collect();
    ///     call.write("y", &sums)
    /// });
    /// assert!(machine.missing_kernels().is_empty());
    /// ```
    ///
    /// # Panics
    /// If the signature is malformed; the message says where.
    #[doc(alias = "cuModuleGetFunction")]
    #[doc(alias = "cuLaunchKernel")]
    #[track_caller]
    pub fn kernel(
        &self,
        name: &'static str,
        signature: &str,
        body: impl FnMut(&mut KernelCall<'_, '_>) -> Result<(), CuResult> + Send + 'static,
    ) {
        let parameters = match signature::parse(signature) {
            Ok(parameters) => parameters.into(),
            Err(why) => panic!("the signature of the kernel `{name}`: {why}"),
        };
        let kernel = Registered { name, parameters, body: Arc::new(Mutex::new(body)) };
        self.lock().kernels.register(kernel);
    }

    /// The names of kernels that the program asked for and that are not
    /// [registered](Self::kernel), in alphabetical order: `cuModuleGetFunction` returned
    /// `NOT_FOUND`, so that no kernel is taken for run that was not.
    pub fn missing_kernels(&self) -> Vec<String> {
        self.lock().kernels.missing.iter().cloned().collect()
    }
}
