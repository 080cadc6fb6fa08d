// SPDX-License-Identifier: MIT
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    freeway_speed::main();
}
