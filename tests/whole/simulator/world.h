// SPDX-License-Identifier: MIT
//
// world.h: the threads of a simulation, what happens to them, and the malloc's memory, which is put back before each
// seed.
//
// Events    a thread that makes an operation on a shared word, or a step, counts down to the next event. The seed says
//           then which it is: another thread goes on, a handler interrupts the thread, it moves to another CPU, it
//           stops for ever, the process forks, the clock moves, an audit looks, or the thread must finish its call
//           while all others stand still
// Sections  a restartable section is interrupted when its thread is: by a handler, by a move to another CPU, by a
//           thread that runs on its CPU meanwhile, and by membarrier
// Memory    sequentially consistent: what weaker memory shows, the explorer shows
#ifndef FREEWAY_SIMULATOR_WORLD_H
#define FREEWAY_SIMULATOR_WORLD_H

#include <cstdint>
#include <string>
#include <vector>

#include "tests/explorer/fiber.h"
#include "tests/whole/simulator/hooks.h"
#include "tests/whole/simulator/random.h"

namespace freeway::sim {

constexpr int kMostThreads = 12;  // those of the program, the helpers, the auditor, and the one that ends it all
constexpr int kMostProgramThreads = 6;
constexpr int kAuditor = kMostThreads - 1, kLast = kMostThreads - 2;

enum Event { kSwitch, kSignal, kMigrate, kKill, kFork, kClock, kAudit, kSolo, kEvents };
extern const char* const kEventNames[kEvents];

struct Thread {
  enum State { kNone, kReady, kSleeping, kFinished, kGone };

  model::Fiber fiber;
  State state = kNone;
  char* pointer = nullptr;      // its thread pointer
  std::vector<char> variables;  // the library's thread-local ones, while others run
  int error = 0;                // errno
  SimSection* section = nullptr;
  unsigned cpu = 0;
  bool registered = true;  // for rseq
  int depth = 0;           // handlers that interrupted each other
  int signals_blocked = 0;
  bool in_call = false;      // of the library's
  std::size_t in_hand = 0;   // bytes that its calls may have in hand
  unsigned superblocks = 0;  // that they may hold
  void (*body)(int thread) = nullptr;
  int (*helper)() = nullptr;
  unsigned* helper_word = nullptr;
  std::uint64_t wakes_at = 0;
  bool woken = false;
  std::uint64_t order = 0;
};

class World {
 public:
  static void boot(int argc, char** argv);  // once
  void reset(std::uint64_t seed);
  // Begins thread `t`, which runs body(t) and ends.
  void start(int t, void (*body)(int thread), unsigned cpu, bool registered);
  // Runs threads until all have ended. The failure, if there was one.
  void run();
  // The current thread does not go on. Only failures that come first are kept.
  [[noreturn]] void fail(const std::string& what);
  const std::string& failure() const { return failure_; }
  bool failed() const { return !failure_.empty(); }

  int current = 0;
  Thread& thread() { return threads[current]; }
  Thread threads[kMostThreads];
  Random random;
  std::uint64_t weights[kEvents] = {};
  std::uint64_t pace = 50;  // operations from one event to the next, about
  std::uint64_t now = 0;    // ns
  unsigned cpus = 1, nodes = 1;
  bool is_child = false;    // of a fork
  unsigned lost_calls = 0;  // that never come back, and all that these may have in hand
  std::size_t lost_bytes = 0;
  unsigned lost_superblocks = 0;
  unsigned signals_left = 0, audits_left = 0, kills_left = 0, forks_left = 0, children = 0;
  bool trace = false;
  long longest_call = 0;         // operations of a call while all others stood still
  std::uint64_t operations = 0;  // events so far
  std::uint64_t happened[kEvents] = {};
  static constexpr std::uint64_t kShortSleep = 1'000'000'000;  // ns: the helper's between two looks
  static constexpr std::uint64_t kMostEvents = 3'000'000;
  static constexpr unsigned kMostRestarts = 6;     // of a section: a kernel interrupts none for ever
  static constexpr long kLongestCall = 2'000'000;  // operations of a call while all others stand still

  // Nothing happens while it lives.
  class Quiet {
   public:
    Quiet();
    ~Quiet();

   private:
    long before_;
    bool was_, refused_;
  };
  // Around the program's calls of the library.
  void begin_call(std::size_t in_hand, unsigned superblocks);
  void end_call(std::size_t in_hand, unsigned superblocks);
  void say(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // Of the hooks.
  void event(const char* step);
  bool make_helper(unsigned* word, int (*f)());
  bool wait(std::uint64_t ns, std::uint64_t* order);
  bool wake(unsigned tid);
  void interrupt_sections();
  long id() const { return 1000 + is_child; }
  long thread_id() const { return first_ == current ? id() : 2000 + current; }
  Thread* with_variables_at(std::uintptr_t address, const char** place);
  void handler(void (*f)()) { on_signal_ = f; }
  void auditor(void (*f)()) { on_audit_ = f; }
  void interrupt(Thread& whose);
  void note_report(const char* text, std::size_t bytes);

 private:
  friend class Quiet;
  void draw();
  int choose();
  void resume(int t);
  void leave();
  void move(Thread& t, unsigned cpu);
  void take_cpu(Thread& self);
  void fork_process();
  void lose(Thread& t);
  static void entry(int t);

  std::string failure_, report_;
  bool quiet_ = false;
  int solo_depth_ = -1;  // of the call that must finish; -1: none
  int first_ = 0;        // the process's first thread
  int on_fiber_ = 0;     // whose stack this is
  void (*on_signal_)() = nullptr;
  void (*on_audit_)() = nullptr;
};

extern World world;

}  // namespace freeway::sim

#endif  // FREEWAY_SIMULATOR_WORLD_H
