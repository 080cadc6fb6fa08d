// SPDX-License-Identifier: MIT
// engines.h: the allocators to choose from, and what each can be told.
#pragma once

#include <string>

namespace freeway_command {

// What is wrong with choosing `engine`, as a sentence; empty if nothing is.
std::string fault_of_engine(const std::string& engine);

// Puts the option `name=value` of `engine` into the environment; what is wrong with it, as a sentence, or empty.
std::string set_engine_option(const std::string& engine, const std::string& assignment);

}  // namespace freeway_command
