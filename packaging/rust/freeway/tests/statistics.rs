// SPDX-License-Identifier: MIT
//! Figures are of the whole process, so this test has one of its own.

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

#[test]
fn statistics_count_what_is_live() {
    let before = freeway::stats();
    let blocks: Vec<Box<[u8; 1024]>> = (0..64 << 10).map(|_| Box::new([1; 1024])).collect();
    let during = freeway::stats();
    assert!(during.live >= before.live + (64 << 20), "{:?} {:?}", before, during);
    assert!(during.live_blocks >= before.live_blocks + (64 << 10));
    drop(blocks);
    assert!(freeway::stats().live <= during.live - (64 << 20));
    assert!(freeway::stats().slow_mallocs > 0);
}
