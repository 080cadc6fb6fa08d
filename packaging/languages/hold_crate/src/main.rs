// SPDX-License-Identifier: MIT
// main.rs: hold.rs with Freeway from its crate.
#[global_allocator]
static HEAP: freeway::Freeway = freeway::Freeway;

include!("../../hold.rs");
