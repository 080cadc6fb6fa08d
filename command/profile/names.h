// SPDX-License-Identifier: MIT
// names.h: functions' names, as they were written.
#pragma once

#include <string>

namespace freeway_profile {

// The name of the function that the linker knows as `symbol`: what compilers add for copies of it is left out, and of
// C++'s functions the parameters, too: "std::vector<int>::push_back", "operator new". Of Rust's both kinds of symbols
// are read.
std::string name_of_symbol(const std::string& symbol);

}  // namespace freeway_profile
