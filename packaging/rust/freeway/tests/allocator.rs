// SPDX-License-Identifier: MIT
//! Freeway as the global allocator of this program.
use freeway::{explain, Freeway, Kind, State};
use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static GLOBAL: Freeway = Freeway;

#[test]
fn blocks_of_collections_are_freeways() {
    let small = Box::new(7_u32);
    let large = vec![1_u8; 100_000];
    let known = explain(&*small as *const u32 as *const u8);
    assert_eq!((known.kind, known.state, known.offset), (Kind::SmallBlock, State::Live, 0));
    let known = explain(&large[99_999]);
    assert_eq!((known.kind, known.state, known.offset), (Kind::LargeBlock, State::Live, 99_999));
    assert!(known.size >= large.len() && known.begin == large.as_ptr());
    assert!(unsafe { freeway::usable_size(large.as_ptr()) } >= large.len());
    let huge = vec![0_u8; 300 << 20];
    assert_eq!(explain(huge.as_ptr()).what, "a mapping of its own");
    let on_the_stack = 0_u8;
    assert_eq!(explain(&on_the_stack).kind, Kind::NotOurs);
}

#[test]
fn every_alignment_and_size_is_kept_and_zeroed_and_resized() {
    for shift in 0..=16 {
        for size in [1, 15, 16, 17, 1000, 5000, 40_000, 1 << 20] {
            let layout = Layout::from_size_align(size, 1 << shift).unwrap();
            unsafe {
                // Memory that was written to comes back: zeroed has to do something.
                let block = alloc(layout);
                assert_eq!(block as usize % layout.align(), 0);
                block.write_bytes(0xA5, size);
                dealloc(block, layout);
                let block = alloc_zeroed(layout);
                assert_eq!(block as usize % layout.align(), 0);
                assert!((0..size).all(|i| *block.add(i) == 0), "{:?}", layout);
                (0..size).for_each(|i| *block.add(i) = i as u8);
                let grown = realloc(block, layout, size * 3);
                assert_eq!(grown as usize % layout.align(), 0);
                assert!((0..size).all(|i| *grown.add(i) == i as u8), "{:?}", layout);
                let layout = Layout::from_size_align(size * 3, layout.align()).unwrap();
                let shrunk = realloc(grown, layout, (size + 1) / 2);
                assert_eq!(shrunk as usize % layout.align(), 0);
                assert!((0..(size + 1) / 2).all(|i| *shrunk.add(i) == i as u8), "{:?}", layout);
                dealloc(shrunk, Layout::from_size_align((size + 1) / 2, layout.align()).unwrap());
            }
        }
    }
}

#[test]
fn blocks_that_other_threads_free_are_intact() {
    let (sender, receiver) = mpsc::channel::<(u64, HashMap<u64, String>)>();
    let makers: Vec<_> = (0..4)
        .map(|maker| {
            let sender = sender.clone();
            thread::spawn(move || {
                for round in 0..200 {
                    let first = maker * 1_000_000 + round * 100;
                    sender.send((first, (first..first + 100).map(|key| (key, key.to_string())).collect())).unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    let mut all = BTreeMap::new();
    for (first, map) in receiver {
        assert!((first..first + 100).all(|key| map[&key] == key.to_string()));
        all.insert(first, map);
        if all.len() > 50 {
            let oldest = *all.keys().next().unwrap();
            all.remove(&oldest);
        }
    }
    makers.into_iter().for_each(|maker| maker.join().unwrap());
}

#[test]
fn blocks_tell_of_their_superblocks() {
    let blocks: Vec<Box<[u8; 2000]>> = (0..100).map(|_| Box::new([0; 2000])).collect();
    let info = freeway::block_info(blocks[50].as_ptr()).unwrap();
    assert!(info.size >= 2000 && info.superblock_blocks >= info.superblock_live && info.superblock_live > 0);
    assert!(freeway::block_info(blocks[50][1..].as_ptr()).is_none());
    assert!(!freeway::should_move(&0_u8));
}

#[test]
fn impossible_sizes_are_refused() {
    let mut bytes = Vec::<u8>::new();
    assert!(bytes.try_reserve_exact(isize::MAX as usize).is_err());
    assert!(bytes.try_reserve_exact(1 << 20).is_ok());
}

#[test]
fn the_version_is_the_crates() {
    assert_eq!(freeway::version(), env!("CARGO_PKG_VERSION"));
}
