// SPDX-License-Identifier: MIT
//
// The kernel that runs this restarts the sections that it preempts, if it is one of those that Freeway trusts to do so;
// tests that interrupt sections by breakpoints and signals say nothing of that. Prints what was found, also of a kernel
// that is not trusted. Needs nothing but the C library and threads: emulated machines run it as a static program.
#include <sys/utsname.h>

#include <cstdio>

#include "command/restart_probe.h"
#include "os/kernel_release.h"

int main() {
  utsname name{};
  ::uname(&name);
  const bool trusted = freeway::restarts_sections(freeway::kThisProcessor, name.release);
  const freeway_command::RestartProbe found = freeway_command::probe_restarts();
  std::printf("Linux %s, %s: of %d preempted sections %d were restarted; the kernel is %strusted\n", name.release,
              name.machine, found.restarted + found.not_restarted, found.restarted, trusted ? "" : "not ");
  if (!found.tried()) return 77;
  return trusted && found.not_restarted != 0 ? 1 : 0;
}
