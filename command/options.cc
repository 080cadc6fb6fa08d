// SPDX-License-Identifier: MIT
#include "options.h"

#include <cstdio>

#include "child.h"
#include "library.h"
#include "report.h"

namespace freeway_command {

int options() {
  const Library library = find_library();
  if (library.path.empty()) return fail(kOwnFailure, library.fault);
  const Said said = run_probe(library, {"FREEWAY_HELP=1", "FREEWAY_VERBOSE", "FREEWAY_STATS"});
  if (said.status != kOk)
    return fail(kOwnFailure, "the library does not work here; see `freeway doctor`\n" + said.complaint());
  std::fputs(said.errors.c_str(), stdout);
  return kOk;
}

}  // namespace freeway_command
