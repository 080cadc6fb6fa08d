// SPDX-License-Identifier: MIT

/// Options of the program's own, where the environment says nothing of them: names without `FREEWAY_` and values as in the
/// environment, separated by `;`. Once, at module level, in the crate of the program (not in a library's).
///
/// ```
/// freeway::options!("PURGE=never; LIMIT=900m,1g");
/// # #[global_allocator] static GLOBAL: freeway::Freeway = freeway::Freeway;
/// # fn main() { let _ = Box::new(1); assert_eq!(freeway::stats().hard_limit, 1 << 30); }
/// ```
#[macro_export]
macro_rules! options {
    ($text:expr) => {
        #[no_mangle]
        #[allow(non_upper_case_globals)]
        pub static freeway_options: $crate::Options = $crate::Options::new(concat!($text, "\0"));
    };
}

/// C's `const char*`.
#[repr(transparent)]
#[derive(Debug)]
pub struct Options(*const u8);

// It points to constant text.
unsafe impl Sync for Options {}

impl Options {
    /// `text` ends with a zero: `options!` sees to it.
    #[doc(hidden)]
    pub const fn new(text: &'static str) -> Options {
        Options(text.as_ptr())
    }
}
