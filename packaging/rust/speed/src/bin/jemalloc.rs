// SPDX-License-Identifier: MIT
#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    freeway_speed::main();
}
