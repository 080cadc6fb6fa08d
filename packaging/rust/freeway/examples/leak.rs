// SPDX-License-Identifier: MIT
//! A leak, and the heap profile that shows it. FREEWAY_PROFILE=512k in the environment does the same without a line of code.
//!
//!     RUSTFLAGS="-C force-frame-pointers=yes" cargo run --example leak -- leak.heap
//!     freeway profile convert leak.heap -o leak.html      # a flame graph, with `answer` in it
use std::collections::HashMap;

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

/// Remembers each answer, and forgets none.
#[inline(never)]
fn answer(known: &mut HashMap<u64, String>, question: u64) -> usize {
    known.entry(question).or_insert_with(|| "x".repeat(200)).len()
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "leak.heap".to_owned());
    freeway::profile::start(64 << 10)?;
    let mut known = HashMap::new();
    let bytes: usize = (0..100_000).map(|question| answer(&mut known, question)).sum();
    freeway::profile::dump_to(&path)?;
    println!("{} bytes of answers, {} live bytes; the profile is in {}", bytes, freeway::stats().live, path);
    Ok(())
}
