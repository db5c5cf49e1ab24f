//! Arithmetic and conversions of device addresses, with the names that pointers have in `std`.

use std::fmt;

use crate::CuDevicePtr;

impl CuDevicePtr {
    /// The address of byte `address`.
    ///
    /// ```
    /// use rmm_sys::CuDevicePtr;
    ///
    /// assert_eq!(CuDevicePtr::new(0x1000).addr(), 0x1000);
    /// assert_eq!(u64::from(CuDevicePtr::from(4096)), 4096);
    /// ```
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The address as a number.
    pub const fn addr(self) -> u64 {
        self.0
    }

    /// Whether it is [`NULL`](Self::NULL), the address of a block of zero bytes.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The address `count` elements of `T` further.
    ///
    /// ```
    /// use rmm_sys::CuDevicePtr;
    ///
    /// let base = CuDevicePtr::new(0x1000);
    /// assert_eq!(base.add::<f32>(4), base.byte_add(16));
    /// ```
    ///
    /// # Panics
    /// If that is not in the 64-bit address space.
    #[must_use]
    pub const fn add<T>(self, count: usize) -> Self {
        match (count as u64).checked_mul(size_of::<T>() as u64) {
            Some(bytes) => self.byte_add(bytes),
            None => panic!("the offset overflows the address space"),
        }
    }

    /// The address `bytes` bytes further.
    ///
    /// # Panics
    /// If that is not in the 64-bit address space.
    #[must_use]
    pub const fn byte_add(self, bytes: u64) -> Self {
        match self.checked_byte_add(bytes) {
            Some(sum) => sum,
            None => panic!("the offset overflows the address space"),
        }
    }

    /// The address `bytes` bytes further; `None` if that is not in the 64-bit address space.
    ///
    /// ```
    /// use rmm_sys::CuDevicePtr;
    ///
    /// assert_eq!(CuDevicePtr::new(1).checked_byte_add(u64::MAX), None);
    /// ```
    pub const fn checked_byte_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl From<u64> for CuDevicePtr {
    fn from(address: u64) -> Self {
        Self(address)
    }
}

impl From<CuDevicePtr> for u64 {
    fn from(pointer: CuDevicePtr) -> Self {
        pointer.0
    }
}

/// As `std` formats pointers.
///
/// ```
/// assert_eq!(format!("{:p}", rmm_sys::CuDevicePtr::new(0x7f00)), "0x7f00");
/// ```
impl fmt::Pointer for CuDevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for CuDevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

impl fmt::UpperHex for CuDevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::UpperHex::fmt(&self.0, f)
    }
}
