// SPDX-License-Identifier: MIT
// options.cc: the list of options is the library's own table (os/option_table.h).
#include "options.h"

#include <cstdio>
#include <string>

#include "os/option_table.h"
#include "report.h"

namespace freeway_command {

int options() {
  std::puts("Freeway's options, set in the environment (default in parentheses):");
  for (const freeway::OptionDescription& option : freeway::kOptionTable)
    std::printf("  %-27s %s\n", ("FREEWAY_" + std::string(option.name) + "=" + option.values).c_str(), option.meaning);
  return kOk;
}

}  // namespace freeway_command
