// SPDX-License-Identifier: MIT
//
// A process that is refused some of the system calls its allocator makes, by the plan in its arguments (plan.h), from
// the first call of the process on. It goes through the tour; then memory comes back: everything works again, nothing
// is lost, and the fast path makes no system call. Exit status 0: so it was. refused_test.cc starts it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/whole/system_calls/gate.h"
#include "tests/whole/system_calls/soundness.h"
#include "tests/whole/system_calls/tour.h"

#if !defined(__x86_64__)
int main() { return freeway_test::kSkipStatus; }
#else

namespace {
using namespace freeway_test;

constinit Tour tour;
void* first_block;  // before any constructor has run

void first_of_all(int argc, char** argv, char**) {
  ::alarm(120);  // a hang fails
  gate::plan = read_plan(argc, argv);
  void* shared = ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED, kReportFd, 0);
  if (shared != MAP_FAILED) gate::report = static_cast<Report*>(shared);
  tour.choose_cpus();
  gate::install(gate::text_of_library());
  gate::refusing = true;
  first_block = ::malloc(100);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const preinit)(int, char**, char**) = first_of_all;

// A thousand pairs without a system call, once the magazine is there.
void require_fast_path() {
  const auto pair = [] {
    void* volatile block = ::malloc(64);
    ::free(block);
  };
  for (int i = 0; i < 100; i++) pair();
  const uint64_t before = gate::report->calls;
  for (int i = 0; i < 1000; i++) pair();
  require(gate::report->calls == before, "the fast path makes system calls", gate::report->calls - before);
}

}  // namespace

int main(int argc, char** argv) {
  const bool short_tour = argc > 1 && std::strcmp(argv[1], "--short") == 0;
  require(gate::report->made[SYS_personality] != 0, "the first call of the process was not behind the gate");
  if (!short_tour) tour.run(/*in_child=*/false);
  ::free(first_block);
  gate::report->failures = tour.failures();
  gate::report->calls_of_tour = gate::report->calls;
  gate::refusing = gate::counting = false;

  tour.memory_is_back(true);
  tour.run(/*in_child=*/false);
  const Leftovers left = require_nothing_lost(/*reserved=*/true);
  gate::report->live_blocks = left.live_blocks;
  gate::report->address_space = left.address_space;
  require_fast_path();
  gate::refusing = gate::counting = short_tour;  // what is written at exit may be refused again
  return 0;
}
#endif
