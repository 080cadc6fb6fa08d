// SPDX-License-Identifier: MIT
//! Heap profiles: which stacks allocated what is live, one sample in so many bytes. Nothing in them waits.
//!
//! Stacks are followed by frame pointers, which Rust programs have with `RUSTFLAGS="-C force-frame-pointers=yes"`; of others
//! 8 KiB of each kind of stack go into the dump, and `freeway profile` unwinds them. The text is google/pprof's:
//! `freeway profile top DUMP`, or `pprof -top PROGRAM DUMP`.
use crate::Error;
use freeway_sys as sys;

/// Begins a profile: on average one in `interval` bytes is sampled, 1: every block; 524288 is usual. Going on with the
/// interval of the last profile adds to it. Errors: [`Error::INVALID`] (0), [`Error::BUSY`] (another interval is in use),
/// [`Error::NO_MEMORY`].
pub fn start(interval: usize) -> Result<(), Error> {
    Error::check(unsafe { sys::freeway_profile_start(interval) })
}

/// Ends it. What was sampled stays known, and its frees are counted.
pub fn stop() {
    unsafe { sys::freeway_profile_stop() }
}

/// Writes the profile that is made, or was made last, to the file descriptor `fd`. An error is that of a write.
pub fn dump(fd: i32) -> Result<(), Error> {
    Error::check(unsafe { sys::freeway_profile_dump(fd) })
}

/// Writes it to a new file, its owner's alone: where there are no frame pointers it holds what lay on stacks. Opening a file
/// allocates for its name, and is no function for signal handlers; [`dump`] is.
#[cfg(feature = "std")]
pub fn dump_to(path: impl AsRef<std::path::Path>) -> std::io::Result<()> {
    use std::os::unix::{fs::OpenOptionsExt, io::AsRawFd};
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    Ok(dump(file.as_raw_fd())?)
}

/// Sets the calling thread's tag, which goes into its samples (a request, a tenant, a component); 0 at first. Returns the
/// one before.
pub fn tag(tag: u64) -> u64 {
    unsafe { sys::freeway_tag(tag) }
}
