// SPDX-License-Identifier: MIT
//! A plugin (a cdylib) with Freeway in it, in a program that has another malloc. tests/plugin.rs loads it.

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

/// Makes and frees `count` blocks; returns how many of them Freeway says are its own.
#[no_mangle]
pub extern "C" fn plugin_work(count: usize) -> usize {
    let blocks: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    blocks.iter().filter(|block| freeway::explain(block.as_ptr()).kind == freeway::Kind::SmallBlock).count()
}
