// SPDX-License-Identifier: MIT
//! The child of a threaded fork may allocate, whatever the other threads were doing.
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

fn work(rounds: usize) -> usize {
    (0..rounds).map(|round| format!("{:0>width$}", round, width = round % 300).len()).sum()
}

#[test]
fn children_of_threaded_forks_allocate_before_exec() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(|| {
                while !DONE.load(Ordering::Relaxed) {
                    assert!(work(1000) > 0);
                }
            })
        })
        .collect();
    for _ in 0..50 {
        let mut child = Command::new("/bin/true");
        let allocate = || {
            assert!(work(1000) > 0);
            Ok(())
        };
        assert!(unsafe { child.pre_exec(allocate) }.status().unwrap().success());
    }
    DONE.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
