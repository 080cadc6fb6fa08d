// SPDX-License-Identifier: MIT
// leaks.cc: `freeway leaks`: which sampled blocks no pointer reaches; and the same at the end of each process
// that `freeway run --leaks` starts.
#include "leaks.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <thread>

#include "last_look.h"
#include "leaks/held.h"
#include "leaks/leaked.h"
#include "look.h"
#include "profile/settings.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

// So that every block finds room: of a program with more live blocks, or more stacks, a part of them is not looked at.
constexpr const char* kTables = ",blocks=4m,stacks=1m";

// What `run --leaks` has seen.
struct Seen {
  std::mutex one_at_a_time;  // a signal may end the program while its children end
  unsigned looked = 0, failed = 0, leaking = 0, clean_others = 0;
};

// By a thread that ends with it: see Stopped.
Leaks find_leaks_apart(pid_t process) {
  std::packaged_task<Leaks()> task([process] { return find_leaks(process); });
  std::thread(std::ref(task)).join();
  return task.get_future().get();
}

// Without the first process's own line, what has no leaks gets none: a script may start thousands.
// `signal`: the one that is about to end the process, which this thread has stopped; 0: none.
void look_at(pid_t process, pid_t program, const LeakOptions& options, Seen& seen, int signal = 0) {
  const std::lock_guard<std::mutex> turn(seen.one_at_a_time);
  try {
    const Leaks found = signal != 0 ? find_leaks(process, signal) : find_leaks_apart(process);
    ++seen.looked;
    seen.leaking += found.any();
    if (!found.any() && found.lost == 0 && process != program) ++seen.clean_others;
    else print_leaks(found, STDERR_FILENO, "freeway: ");
    if (!options.dump.empty() && found.any()) write_profile_of(found, options.dump, process);
  } catch (const Failure& failure) {
    ++seen.failed;
    fail(failure.status, failure.what());
  } catch (const std::bad_alloc&) {
    ++seen.failed;
    fail(kCannot, "there is not enough memory to look for leaks of process " + std::to_string(process));
  }
}

}  // namespace

int parse_status(const std::string& text) {
  char* rest = nullptr;
  const long status = std::strtol(text.c_str(), &rest, 10);
  const bool good = !text.empty() && text[0] >= '0' && text[0] <= '9' && *rest == 0 && status >= 1 && status <= 255;
  return good ? static_cast<int>(status) : 0;
}

int leaks(const Arguments& arguments) {
  const std::string wanted = arguments.value("--status", "0");
  const int status = parse_status(wanted);
  if (status == 0 && arguments.has("--status")) arguments.refuse("--status wants 1 to 255, not '" + wanted + "'");
  const std::string& target = arguments.others()[0];
  Leaks found;
  if (const int pid = process_of(target); pid != 0) {
    found = find_leaks(pid);
  } else {
    const auto memory = core_memory(target);
    warn_of(*memory);
    found = find_leaks(*memory, memory->threads());
  }
  std::fflush(stdout);
  print_leaks(found, STDOUT_FILENO, "");
  if (const std::string out = arguments.value("-o"); !out.empty()) write_profile(found, out);
  return found.any() ? status : static_cast<int>(kOk);
}

int run_for_leaks(const LeakOptions& options, const std::function<Ended(const std::function<void(pid_t)>&)>& start) {
  if (std::getenv("FREEWAY_PROFILE") != nullptr)
    return fail(kRunFailed, "run: --leaks makes a profile of its own: not together with --profile or FREEWAY_PROFILE");
  const Held held;
  if (!held.fault().empty()) return fail(kRunFailed, "run: --leaks: " + held.fault());
  const std::string setting = options.interval + ",dump=hold:" + held.path() + kTables;
  freeway::profile::Settings read;
  if (options.interval.find(',') != std::string::npos || !freeway::profile::parse_settings(setting.c_str(), &read))
    return fail(kWrongUsage,
                "run: --leaks=" + options.interval + ": one sample in how many bytes? (1: every block; 512k)");
  setenv("FREEWAY_PROFILE", setting.c_str(), 1);
  Seen seen;
  hold_next();
  const Ended ended = start([&](pid_t program) {
    LastLook last(program, [&](int signal) { look_at(program, program, options, seen, signal); });
    held.look_while(program, [&](pid_t process) {
      if (process == program) last.let_go();  // a process has one tracer at most
      look_at(process, program, options, seen);
    });
  });
  if (ended.pid < 0) return fail(kRunFailed, "run: --leaks: no process can be started");
  if (seen.clean_others != 0)
    std::fprintf(stderr, "freeway: no leaks in %u other process%s\n", seen.clean_others,
                 seen.clean_others == 1 ? "" : "es");
  if (seen.looked + seen.failed == 0)
    std::fprintf(stderr, "freeway: no process was looked at for leaks: none that has Freeway ended by exit\n");
  if (options.status == 0 || !WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0) return end_like(ended);
  if (seen.leaking != 0) return options.status;
  return seen.failed != 0 || seen.looked == 0 ? static_cast<int>(kRunFailed) : end_like(ended);
}

}  // namespace freeway_command
