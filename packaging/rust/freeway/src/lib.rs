// SPDX-License-Identifier: MIT
//! Freeway, a lock-free malloc for Linux, as Rust's global allocator.
//!
//! ```
//! #[global_allocator]
//! static GLOBAL: freeway::Freeway = freeway::Freeway;
//!
//! fn main() {
//!     let text = String::from("on Freeway");
//!     assert!(freeway::stats().live >= text.len());
//! }
//! ```
//!
//! No thread ever waits for another one in it: a thread that is stopped, killed or slow inside an allocation delays nobody.
//! Therefore allocation is allowed in signal handlers and in the child of a threaded `fork`, as in `pre_exec`. Unless its
//! documentation says otherwise that holds for each function of this crate, too.
//!
//! Features: `override` puts malloc's names on it as well, for the C and C++ code of the program; `harden` makes the
//! hardened heap the default; without the default feature `std` the crate needs `core` alone.
//!
//! The environment has options (`FREEWAY_STATS=1`, `FREEWAY_PROFILE=512k`, …); [`options!`] is how a program sets its own.
#![no_std]
#[cfg(feature = "std")]
extern crate std;

mod error;
mod explanation;
mod options;
pub mod profile;

use core::alloc::{GlobalAlloc, Layout};
use core::mem::{size_of, MaybeUninit};
use freeway_sys as sys;

pub use error::Error;
pub use explanation::{block_info, explain, should_move, BlockInfo, Explanation, Kind, State};
#[doc(hidden)]
pub use options::Options;
/// What the heap holds, in bytes unless a field says otherwise.
pub use sys::freeway_stats_t as Stats;

/// Blocks of any size are aligned to so many bytes.
const MALLOC_ALIGNMENT: usize = 16;

/// The allocator. All values of it are the same heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freeway;

unsafe impl GlobalAlloc for Freeway {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGNMENT {
            sys::freeway_malloc(layout.size()) as *mut u8
        } else {
            sys::freeway_aligned_alloc(layout.align(), layout.size()) as *mut u8
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.align() <= MALLOC_ALIGNMENT {
            sys::freeway_free_sized(block as *mut sys::c_void, layout.size())
        } else {
            sys::freeway_free_aligned_sized(block as *mut sys::c_void, layout.align(), layout.size())
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGNMENT {
            return sys::freeway_calloc(1, layout.size()) as *mut u8;
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= MALLOC_ALIGNMENT {
            return sys::freeway_realloc(block as *mut sys::c_void, new_size) as *mut u8;
        }
        let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
        if !moved.is_null() {
            moved.copy_from_nonoverlapping(block, layout.size().min(new_size));
            self.dealloc(block, layout);
        }
        moved
    }
}

/// Fills a structure of C's by `fill`.
fn filled<T>(fill: impl FnOnce(*mut T, usize)) -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    fill(value.as_mut_ptr(), size_of::<T>());
    // All of these have integers and raw pointers only, for which zeros are values.
    unsafe { value.assume_init() }
}

/// The library's version: "0.2.0".
pub fn version() -> &'static str {
    text(unsafe { sys::freeway_version() })
}

/// A text of the library's, which is in static storage.
fn text(text: *const sys::c_char) -> &'static str {
    let mut length = 0;
    unsafe {
        while *text.add(length) != 0 {
            length += 1;
        }
        core::str::from_utf8_unchecked(core::slice::from_raw_parts(text as *const u8, length))
    }
}

/// What the heap holds. Stops nobody: exact while no other thread allocates, else each figure was true at some moment of
/// the call.
pub fn stats() -> Stats {
    filled(|stats, size| unsafe { sys::freeway_stats(stats, size) })
}

/// Gives memory that holds no live block back to the kernel, other CPUs' caches included, but for about `keep` bytes.
/// Returns the bytes given back.
pub fn trim(keep: usize) -> usize {
    unsafe { sys::freeway_trim(keep) }
}

/// The same piece by piece, for event loops: stops when about `max_bytes` are back. Returns the bytes given back; 0 when it
/// has gone through everything since it last found something; 1 if it found nothing now but has not.
pub fn trim_step(max_bytes: usize) -> usize {
    unsafe { sys::freeway_trim_step(max_bytes) }
}

/// A hint: the calling thread is about to sleep. Gives back what is due by now.
pub fn idle() {
    unsafe { sys::freeway_idle() }
}

/// Makes memory ready for `count` blocks of `size` bytes (under 256 MiB), so that calls within it make no system call and
/// no page fault. It stays, free or not: from then on [`trim`] leaves what lies in superblocks in use alone. Returns for how
/// many blocks memory is ready.
pub fn reserve(size: usize, count: usize) -> usize {
    unsafe { sys::freeway_reserve(size, count) }
}

/// Limits what the heap holds of memory that the kernel backs, in bytes; 0: no limit. Above `soft` nothing free is kept;
/// beyond `hard` allocations fail until something is freed. An error where `soft` is above `hard`, or one of them is not 0
/// and less than 64 KiB.
///
/// Most of Rust's collections end the program when an allocation fails; `try_reserve` tells it.
pub fn set_limit(soft: usize, hard: usize) -> Result<(), Error> {
    Error::check(unsafe { sys::freeway_set_limit(soft, hard) })
}

/// Bytes that may be used at `block`; 0 for null.
///
/// # Safety
/// `block` is null, or a live block of Freeway's. Of anything else the library says so, and aborts.
pub unsafe fn usable_size(block: *const u8) -> usize {
    sys::freeway_malloc_usable_size(block as *mut sys::c_void)
}
