// SPDX-License-Identifier: MIT
//! Limits: of the whole process, so these tests are one.
use freeway::Error;

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

#[test]
fn beyond_the_hard_limit_allocations_fail_until_something_is_freed() {
    assert_eq!(freeway::set_limit(2 << 20, 1 << 20), Err(Error::INVALID));
    assert_eq!(freeway::set_limit(0, 1000), Err(Error::INVALID));
    freeway::set_limit(0, 64 << 20).unwrap();
    assert_eq!(freeway::stats().hard_limit, 64 << 20);
    let mut first = Vec::<u8>::new();
    first.try_reserve_exact(40 << 20).unwrap();
    let mut second = Vec::<u8>::new();
    assert!(second.try_reserve_exact(40 << 20).is_err());
    assert!(freeway::stats().limit_refusals > 0);
    drop(first);
    second.try_reserve_exact(40 << 20).unwrap();
    freeway::set_limit(0, 0).unwrap();
    let mut third = Vec::<u8>::new();
    third.try_reserve_exact(100 << 20).unwrap();
}
