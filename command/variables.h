// SPDX-License-Identifier: MIT
// variables.h: what the environment tells the library and the engines: whether they will understand it.
#pragma once

#include <string>

namespace freeway_command {

// Whether the library understands `value`, which may be empty, as that of FREEWAY_<name>.
bool is_understood(const std::string& name, const std::string& value);
// "FREEWAY_<name>": the values it takes, in parentheses.
std::string values_of(const std::string& name);

// Throws Failure for a variable FREEWAY_... whose value the library, or the engine, will not understand, and for a name
// that looks like a misspelt option. Other names may be another program's: they are mentioned on fd 2.
void check_variables(const std::string& engine);

}  // namespace freeway_command
