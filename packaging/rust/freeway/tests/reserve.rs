// SPDX-License-Identifier: MIT
//! Memory that is ready stays, and changes what others give back: this test has a process of its own.

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

/// Page faults of the calling thread that needed no disk.
fn page_faults() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    text.rsplit_once(')').unwrap().1.split_whitespace().nth(7).unwrap().parse().unwrap()
}

#[test]
fn what_is_reserved_takes_no_page_fault() {
    const BLOCKS: usize = 4000;
    let mut blocks: Vec<Vec<u8>> = Vec::with_capacity(BLOCKS);
    assert_eq!(freeway::reserve(4000, BLOCKS), BLOCKS);
    let before = page_faults();
    for number in 0..BLOCKS {
        blocks.push(vec![number as u8; 4000]);
    }
    // Each would have touched a page of its own. Other pages are the code's, and the table's.
    let faults = page_faults() - before;
    assert!(faults < BLOCKS as u64 / 10, "{}", faults);
    assert_eq!(blocks[77][3999], 77);
}
