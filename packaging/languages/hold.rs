// SPDX-License-Identifier: MIT
// hold.rs: hold.c in Rust.
use std::io::Read;

fn main() {
    let held: Vec<Vec<u8>> = (0..8000).map(|i| vec![i as u8 | 1; 1000]).collect();
    println!("held {}", std::process::id());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(held);
}
