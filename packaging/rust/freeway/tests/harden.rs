// SPDX-License-Identifier: MIT
//! The feature `harden`: what only the hardened heap notices is noticed, unless the environment says otherwise.
#![cfg(feature = "harden")]
use std::alloc::{alloc, dealloc, Layout};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

/// What becomes of a process that frees a block twice, with another free between, and then ends at once.
fn double_free(environment: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--ignored", "--nocapture", "--exact", "frees_twice"]).envs(environment.iter().copied());
    command.output().unwrap()
}

#[test]
#[ignore = "a part of the other test: its process dies"]
fn frees_twice() {
    let layout = Layout::from_size_align(48, 16).unwrap();
    unsafe {
        let (first, second) = (alloc(layout), alloc(layout));
        dealloc(first, layout);
        dealloc(second, layout);
        dealloc(first, layout);
    }
    std::process::exit(0);
}

#[test]
fn double_frees_are_named_where_they_happen() {
    let hardened = double_free(&[]);
    assert_eq!(hardened.status.signal(), Some(6), "{:?}", hardened);
    assert!(String::from_utf8_lossy(&hardened.stderr).contains("freeway: double free of"), "{:?}", hardened);
    let plain = double_free(&[("FREEWAY_HARDEN", "0")]);
    assert_eq!(plain.status.code(), Some(0), "{:?}", plain);
}
