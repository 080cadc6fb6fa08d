// SPDX-License-Identifier: MIT
use crate::{filled, text};
use freeway_sys as sys;

/// A block and its superblock, for programs that move blocks.
pub use sys::freeway_block_info_t as BlockInfo;

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Nothing of Freeway's.
    NotOurs,
    /// A block up to 32 KiB, among others of its size.
    SmallBlock,
    /// A block over 32 KiB, or the inaccessible page that ends it.
    LargeBlock,
    /// A block with pages of its own, or the inaccessible page beside it.
    GuardedBlock,
    /// Ready for blocks: none is there.
    FreeMemory,
    /// What Freeway needs itself.
    Metadata,
}

/// Whether a block is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// No block, or one that another thread is about to take or to free.
    Unknown,
    /// In the program's hands, or on its way from or to a cache.
    Live,
    /// Freed, or never given.
    Free,
}

/// What Freeway knows of an address.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// What lies there.
    pub kind: Kind,
    /// Whether that is live.
    pub state: State,
    /// Where the block begins; null where there is none.
    pub begin: *const u8,
    /// The block's bytes.
    pub size: usize,
    /// Of the address from `begin`: negative before a guarded block.
    pub offset: isize,
    /// A few words about it.
    pub what: &'static str,
}

/// What Freeway knows of any address, from its own maps: nothing is read there.
pub fn explain(address: *const u8) -> Explanation {
    let known: sys::freeway_explanation_t = filled(|explanation, size| unsafe {
        sys::freeway_explain(address as *const sys::c_void, explanation, size);
    });
    Explanation {
        kind: match known.kind {
            sys::FREEWAY_SMALL_BLOCK => Kind::SmallBlock,
            sys::FREEWAY_LARGE_BLOCK => Kind::LargeBlock,
            sys::FREEWAY_GUARDED_BLOCK => Kind::GuardedBlock,
            sys::FREEWAY_FREE_MEMORY => Kind::FreeMemory,
            sys::FREEWAY_METADATA => Kind::Metadata,
            _ => Kind::NotOurs,
        },
        state: match known.state {
            sys::FREEWAY_LIVE => State::Live,
            sys::FREEWAY_FREE => State::Free,
            _ => State::Unknown,
        },
        begin: known.begin as *const u8,
        size: known.size,
        offset: known.offset,
        what: text(known.what),
    }
}

/// What is known of the live block that begins at `block`; `None` if none does. Nothing is read there.
pub fn block_info(block: *const u8) -> Option<BlockInfo> {
    let mut size = 0;
    let info =
        filled(|info, bytes| size = unsafe { sys::freeway_block_info(block as *const sys::c_void, info, bytes) });
    if size == 0 {
        None
    } else {
        Some(info)
    }
}

/// The hint for programs that defragment themselves: whether moving the live block (allocate the same size, copy, free) is
/// likely to help to set a superblock free. `false` for anything that is no small block. Only ask about blocks that you
/// are ready to move.
pub fn should_move(block: *const u8) -> bool {
    unsafe { sys::freeway_should_move(block as *const sys::c_void) != 0 }
}
