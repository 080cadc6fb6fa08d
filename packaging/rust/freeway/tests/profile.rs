// SPDX-License-Identifier: MIT
//! Heap profiles: of the whole process, so these tests are one.
#![cfg(feature = "std")]
use freeway::{profile, Error};
use std::fs;

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

/// The bytes that the dump's first line says are live.
fn live(text: &str) -> usize {
    let rest = text.strip_prefix("heap profile: ").unwrap_or_else(|| panic!("{}", text));
    rest.split([':', '[']).nth(1).unwrap().trim().parse().unwrap()
}

#[test]
fn a_profile_has_what_is_live() {
    let path = std::env::temp_dir().join(format!("freeway-profile-{}.heap", std::process::id()));
    let dumped = || {
        profile::dump_to(&path).unwrap();
        fs::read_to_string(&path).unwrap()
    };
    assert_eq!(profile::start(0), Err(Error::INVALID));
    profile::start(1).unwrap();
    assert_eq!(profile::start(4096), Err(Error::BUSY));
    let before = live(&dumped());
    let blocks: Vec<Box<[u8; 4000]>> = (0..1000).map(|_| Box::new([0; 4000])).collect();
    let text = dumped();
    assert!(live(&text) >= before + 4_000_000, "{}", text);
    assert!(text.contains("MAPPED_LIBRARIES:"));
    drop(blocks);
    assert!(live(&dumped()) < before + 1_000_000);
    assert_eq!((profile::tag(7), profile::tag(0)), (0, 7));
    profile::stop();
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    fs::remove_file(&path).unwrap();

    let closed = profile::dump(-1).unwrap_err();
    assert_eq!((closed.code(), std::io::Error::from(closed).raw_os_error()), (9, Some(9)));
    assert_eq!(Error::BUSY.to_string(), "another profile is being made");
}
