// SPDX-License-Identifier: MIT
//! The C functions of Freeway, a lock-free malloc for Linux, and its sources, which are compiled with the crate.
//!
//! Programs want the crate `freeway`, which says all this in Rust. What each function promises is in
//! `freeway/include/freeway/freeway.h`; dependents' build scripts find that folder as `DEP_FREEWAY_INCLUDE`.
//!
//! Unless the feature `override` is on, malloc itself stays the C library's.
#![no_std]
#![allow(non_camel_case_types)]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("Freeway runs on Linux only, on x86-64 and aarch64.");

/// C's `int` on all processors that Freeway runs on.
pub type c_int = i32;
/// C's `char`: signed on x86-64, unsigned on aarch64.
#[cfg(target_arch = "x86_64")]
pub type c_char = i8;
/// C's `char`: signed on x86-64, unsigned on aarch64.
#[cfg(not(target_arch = "x86_64"))]
pub type c_char = u8;
/// C's `void`, behind a pointer.
pub use core::ffi::c_void;

/// A structure of freeway.h, and `FIELDS`, by which the tests compare it with that file.
macro_rules! structure {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_about])* pub $field: $type,)*
        }
        impl $name {
            #[doc(hidden)]
            pub const FIELDS: &'static [(&'static str, &'static str)] = &[$((stringify!($field), stringify!($type))),*];
        }
    };
}

structure! {
    /// What the heap holds, in bytes unless a field says otherwise; `freeway_stats` fills it.
    freeway_stats_t {
        /// Blocks in the program's hands, by block size.
        live: usize,
        /// Free blocks in magazines, ready for malloc.
        cached: usize,
        /// Other free blocks of superblocks in use.
        free_in_superblocks: usize,
        /// Superblocks, large and huge blocks, and free memory that is kept; address space.
        mapped: usize,
        /// Free memory that the kernel still backs, at most.
        dirty: usize,
        /// Descriptors, slabs and maps.
        metadata: usize,
        /// Blocks with a mapping of their own.
        huge: usize,
        /// Count: superblocks in use.
        superblocks: usize,
        /// Count: blocks in the program's hands.
        live_blocks: usize,
        /// Count so far: calls of malloc that left the fast path.
        slow_mallocs: u64,
        /// Count so far: calls of free that left the fast path.
        slow_frees: u64,
        /// Count so far: batches moved from superblocks to a magazine.
        refills: u64,
        /// Count so far: batches moved from a magazine to superblocks.
        flushes: u64,
        /// Count so far: runs of frames or pages given back to the kernel.
        purges: u64,
        /// Bytes so far: memory given back to the kernel.
        purged: u64,
        /// Live blocks that are runs of frames, over 32 KiB.
        large: usize,
        /// Count: these, and the huge ones.
        large_blocks: usize,
        /// Live blocks on pages of their own (FREEWAY_GUARD); part of live.
        guarded: usize,
        /// Count: live blocks on pages of their own.
        guarded_blocks: usize,
        /// Count so far: faults at or beside guarded blocks.
        guard_faults: u64,
        /// What limits limit: what the kernel backs or may back (freeway_set_limit).
        held: usize,
        /// Above this nothing free is kept; 0: no limit.
        soft_limit: usize,
        /// Beyond this nothing is asked for; 0: no limit.
        hard_limit: usize,
        /// Count so far: what the hard limit refused: runs of frames, huge blocks and tables.
        limit_refusals: u64,
        /// Count so far: times that caches were taken apart for the soft limit.
        limit_pressures: u64,
    }
}

structure! {
    /// The account of every frame of 64 KiB; `freeway_audit` fills it. freeway.h says what each field counts.
    freeway_audit_t {
        frames_small: usize,
        frames_large: usize,
        frames_free: usize,
        frames_stranded: usize,
        superblocks_held: usize,
        superblocks_held_by_slabs: usize,
        superblocks_listed: usize,
        superblocks_full: usize,
        blocks_live: usize,
        blocks_cached: usize,
        errors: usize,
        frames: usize,
        frames_unused: usize,
        frames_live: usize,
        frames_cached: usize,
        frames_held: usize,
        frames_huge: usize,
        superblocks: usize,
        superblocks_adrift: usize,
        descriptors: usize,
        descriptors_free: usize,
        slabs: usize,
        slabs_held: usize,
        bytes_held: usize,
        frames_dirty: usize,
        frames_tables: usize,
        frames_charged: usize,
    }
}

/// What an address is: one of the constants `FREEWAY_NOT_OURS` to `FREEWAY_METADATA`.
pub type freeway_kind_t = u32;
/// Nothing of Freeway's.
pub const FREEWAY_NOT_OURS: freeway_kind_t = 0;
/// A block up to 32 KiB, among others of its size.
pub const FREEWAY_SMALL_BLOCK: freeway_kind_t = 1;
/// A block over 32 KiB, or the inaccessible page that ends it.
pub const FREEWAY_LARGE_BLOCK: freeway_kind_t = 2;
/// A block with pages of its own, or the inaccessible page beside it.
pub const FREEWAY_GUARDED_BLOCK: freeway_kind_t = 3;
/// Ready for blocks: none is there.
pub const FREEWAY_FREE_MEMORY: freeway_kind_t = 4;
/// What Freeway needs itself.
pub const FREEWAY_METADATA: freeway_kind_t = 5;

/// Whether a block is live: one of the constants `FREEWAY_STATE_UNKNOWN`, `FREEWAY_LIVE` and `FREEWAY_FREE`.
pub type freeway_state_t = u32;
/// No block, or one that another thread is about to give or to free.
pub const FREEWAY_STATE_UNKNOWN: freeway_state_t = 0;
/// In the program's hands, or on its way from or to a cache.
pub const FREEWAY_LIVE: freeway_state_t = 1;
/// Freed, or never given.
pub const FREEWAY_FREE: freeway_state_t = 2;

structure! {
    /// What Freeway knows of an address; `freeway_explain` fills it.
    freeway_explanation_t {
        kind: freeway_kind_t,
        state: freeway_state_t,
        /// Of the block; null where there is none.
        begin: *mut c_void,
        /// Of the block, in bytes.
        size: usize,
        /// Of the address from `begin`: negative before a guarded block.
        offset: isize,
        /// A few words about it, in static storage.
        what: *const c_char,
        /// Of a guarded block: who allocated and freed it, and in which threads; else null and 0.
        allocated_by: *mut c_void,
        freed_by: *mut c_void,
        allocated_in: u64,
        freed_in: u64,
    }
}

structure! {
    /// A block, and how many bytes of it may be used; `freeway_alloc_at_least` returns it.
    freeway_sized_block_t {
        ptr: *mut c_void,
        size: usize,
    }
}

structure! {
    /// A block and its superblock; `freeway_block_info` fills it.
    freeway_block_info_t {
        /// Bytes of the block.
        size: usize,
        kind: freeway_kind_t,
        /// Bytes of the superblock that it lies in; of other kinds, of the memory that it has for itself.
        superblock_size: usize,
        /// Count: blocks that the superblock has room for.
        superblock_blocks: usize,
        /// Count: of these, live ones, and free ones that lie in magazines.
        superblock_live: usize,
        /// 0..1000: how full the superblocks of its size are on average.
        class_permille: usize,
    }
}

extern "C" {
    pub fn freeway_version() -> *const c_char;

    pub fn freeway_malloc(size: usize) -> *mut c_void;
    pub fn freeway_free(block: *mut c_void);
    pub fn freeway_calloc(count: usize, size: usize) -> *mut c_void;
    pub fn freeway_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    pub fn freeway_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    pub fn freeway_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    pub fn freeway_memalign(alignment: usize, size: usize) -> *mut c_void;
    pub fn freeway_posix_memalign(result: *mut *mut c_void, alignment: usize, size: usize) -> c_int;
    pub fn freeway_valloc(size: usize) -> *mut c_void;
    pub fn freeway_pvalloc(size: usize) -> *mut c_void;
    pub fn freeway_malloc_usable_size(block: *mut c_void) -> usize;
    pub fn freeway_free_sized(block: *mut c_void, size: usize);
    pub fn freeway_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);

    pub fn freeway_alloc_at_least(size: usize) -> freeway_sized_block_t;
    pub fn freeway_aligned_alloc_at_least(alignment: usize, size: usize) -> freeway_sized_block_t;
    pub fn freeway_nallocx(size: usize, flags: c_int) -> usize;

    pub fn freeway_malloc_trim(pad: usize) -> c_int;
    pub fn freeway_mallopt(parameter: c_int, value: c_int) -> c_int;
    pub fn freeway_malloc_stats();
    /// `stream` is a `FILE*`.
    pub fn freeway_malloc_info(options: c_int, stream: *mut c_void) -> c_int;

    pub fn freeway_malloc_batch(size: usize, count: usize, blocks: *mut *mut c_void) -> usize;
    pub fn freeway_free_batch(count: usize, blocks: *mut *mut c_void);

    pub fn freeway_stats(stats: *mut freeway_stats_t, size: usize);
    pub fn freeway_trim(keep: usize) -> usize;
    pub fn freeway_set_limit(soft: usize, hard: usize) -> c_int;
    pub fn freeway_reserve(size: usize, count: usize) -> usize;
    pub fn freeway_trim_step(max_bytes: usize) -> usize;
    pub fn freeway_idle();
    pub fn freeway_audit(audit: *mut freeway_audit_t, size: usize) -> usize;

    pub fn freeway_profile_start(interval: usize) -> c_int;
    pub fn freeway_profile_stop();
    pub fn freeway_profile_dump(fd: c_int) -> c_int;
    pub fn freeway_tag(tag: u64) -> u64;

    pub fn freeway_explain(
        address: *const c_void,
        explanation: *mut freeway_explanation_t,
        size: usize,
    ) -> freeway_kind_t;
    pub fn freeway_explain_to(fd: c_int, address: *const c_void);

    pub fn freeway_block_info(block: *const c_void, info: *mut freeway_block_info_t, size: usize) -> usize;
    pub fn freeway_should_move(block: *const c_void) -> c_int;
}
