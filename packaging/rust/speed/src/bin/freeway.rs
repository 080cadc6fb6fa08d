// SPDX-License-Identifier: MIT
#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

fn main() {
    freeway_speed::main();
}
