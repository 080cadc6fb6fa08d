// SPDX-License-Identifier: MIT
#[global_allocator]
static GLOBAL: std::alloc::System = std::alloc::System;

fn main() {
    freeway_speed::main();
}
