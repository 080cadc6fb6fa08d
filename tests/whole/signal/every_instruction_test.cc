// SPDX-License-Identifier: MIT
//
// A signal at every instruction of the allocator that the drills execute, one after the other, not at random: the
// handler allocates and frees; or it jumps out for ever; or it forks, and both processes finish the interrupted call.
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>

#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/drills.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/instruction_tour.h"
#include "tests/whole/signal/support/loss_account.h"
#include "tests/whole/signal/support/steady_state.h"

#if !defined(__x86_64__)
int main() { return freeway_test::kSkipStatus; }
#else

namespace {
using namespace freeway_test;

InstructionTour tour;
Drills* drills;           // the interrupted program's
Drills* handlers_drills;  // the handler's
volatile bool was_hit = false;

void start(const Options& options, InstructionTour::Action action, int flags = 0) {
  static Drills own(options.seed), handlers(options.seed + 1);
  drills = &own;
  handlers_drills = &handlers;
  tour.prepare(options.seed, action, flags);
}

// --- The handler allocates and frees. -------------------------------------------------------------------------------

void handler_allocates(const Options& options) {
  start(options, [](bool) {
    was_hit = true;
    handlers_drills->run_in_handler(*drills);
  });
  size_t since_audit = 0;
  tour.travel("handlers allocated", Deadline(options.seconds), [&](size_t drill) {
    was_hit = false;
    drills->run(drill);
    if (++since_audit % 16 == 0) {
      drills->verify_all("a block is damaged after a handler");
      require_clean_audit("audit after a handler");
    }
    return was_hit;
  });
  drills->empty();
  handlers_drills->empty();
  const freeway_audit_t audit = require_clean_audit("audit after handlers at every instruction");
  require(superblocks_lost(audit) == 0 && audit.frames_stranded == 0, "memory was lost though every call came back",
          superblocks_lost(audit), audit.frames_stranded);
  require_caches_in_use();
}

// --- The handler jumps out of the call. -----------------------------------------------------------------------------

sigjmp_buf landing;
LossOfEach loss;  // not a local: it is read after the jump

void handler_jumps_out(const Options& options) {
  // SA_NODEFER: the jump does not restore the mask.
  start(
      options,
      [](bool) {
        if (inside_allocator == 0) return;
        was_hit = true;
        Drills::lift_memory_limit();
        inside_allocator = 0;
        siglongjmp(landing, 1);
      },
      SA_NODEFER);
  const auto visit = [](size_t drill) {
    was_hit = false;
    if (sigsetjmp(landing, 0) == 0) {
      drills->run(drill);
      return was_hit == true;
    }
    loss.check(drills->in_hand(), drills->superblocks_in_hand());
    drills->clear_in_hand();
    drills->verify_all("a block is damaged after a jump out of the allocator");
    drills->run(Drills::kPairs);
    drills->run(Drills::kSmallBurst);
    return true;
  };
  loss.start();
  tour.travel_in_children(
      "handlers jumped out", Deadline(options.seconds), [] {}, visit,
      [] {
        drills->empty();
        require_clean_audit("audit after jumps");
        require_steady_state(1);
      });
  loss.write("jumps");
}

// --- The handler forks; parent and child both finish the call. ------------------------------------------------------

volatile bool in_child = false;

void handler_forks(const Options& options) {
  start(options, [](bool) {
    was_hit = true;
    Drills::lift_memory_limit();
    const pid_t child = static_cast<pid_t>(::syscall(SYS_fork));
    if (child == 0) {
      in_child = true;
      handlers_drills->run_in_handler(*drills);
      return;
    }
    require_child_success(child, "the child of a fork inside a call failed");
  });
  tour.travel("handlers forked", Deadline(options.seconds), [&](size_t drill) {
    was_hit = false;
    drills->run(drill);
    if (in_child) {
      handlers_drills->run_in_handler(*drills);
      drills->run(Drills::kSmallBurst);
      drills->verify_all("a block is damaged in a forked child");
      require_clean_audit("audit in a forked child");
      ::_exit(0);
    }
    return was_hit == true;
  });
  drills->empty();
  require_clean_audit("audit after forks at every instruction");
  require_caches_in_use();
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"handler_allocates", handler_allocates},
                    {"handler_jumps_out", handler_jumps_out},
                    {"handler_forks", handler_forks}});
}
#endif
