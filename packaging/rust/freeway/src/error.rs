// SPDX-License-Identifier: MIT
use core::fmt;

/// Why a call failed: an errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error(i32);

impl Error {
    /// A profile with another interval is being made (EBUSY).
    pub const BUSY: Error = Error(16);
    /// An argument that cannot be (EINVAL).
    pub const INVALID: Error = Error(22);
    /// There is no memory (ENOMEM).
    pub const NO_MEMORY: Error = Error(12);

    /// The errno.
    pub const fn code(self) -> i32 {
        self.0
    }

    /// What C functions return that give 0 or an errno.
    pub(crate) fn check(result: i32) -> Result<(), Error> {
        if result == 0 {
            Ok(())
        } else {
            Err(Error(result))
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::BUSY => formatter.write_str("another profile is being made"),
            Error::INVALID => formatter.write_str("an argument that cannot be"),
            Error::NO_MEMORY => formatter.write_str("no memory"),
            Error(code) => write!(formatter, "errno {}", code),
        }
    }
}

#[cfg(feature = "std")]
impl std::error::Error for Error {}

#[cfg(feature = "std")]
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::from_raw_os_error(error.code())
    }
}
