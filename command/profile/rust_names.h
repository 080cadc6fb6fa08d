// SPDX-License-Identifier: MIT
// rust_names.h: names of Rust's functions, out of symbols as its compiler makes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace freeway_profile {

// What a symbol that begins with "_R" names (Rust's RFC 2603, "v0"), without crates' hashes:
// "<alloc::vec::Vec<u8>>::push", "server::main::{closure#0}". Nothing if it is no such symbol, or longer than anybody reads.
std::optional<std::string> rust_name(std::string_view symbol);

}  // namespace freeway_profile
