// SPDX-License-Identifier: MIT
//! Trimming is of the whole process, so this test has one of its own.

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

#[test]
fn trim_gives_back_what_was_freed() {
    let blocks: Vec<Box<[u8; 512]>> = (0..200_000).map(|_| Box::new([1; 512])).collect();
    // Every hundredth stays, so that frames cannot go back by themselves.
    let kept: Vec<_> = blocks.into_iter().step_by(100).collect();
    let given_back = freeway::trim(0);
    assert!(given_back > 10 << 20, "{} {:?}", given_back, freeway::stats());
    assert!(kept.iter().all(|block| block[511] == 1));
    let mut steps = 0;
    while freeway::trim_step(1 << 20) > 0 {
        steps += 1;
        assert!(steps < 100_000);
    }
    freeway::idle();
}
