// SPDX-License-Identifier: MIT
// execution.h: one run of a program, driven transition by transition from outside.
//
// Every thread is a fiber that stops before each of its atomic operations and announces it. Whoever drives the
// execution picks a thread and an outcome; step() carries the operation out and lets the thread go on to its next
// one. The constructor and finish() run on a fiber too, but without stopping.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/explorer/explorer.h"
#include "tests/explorer/fiber.h"
#include "tests/explorer/memory.h"

namespace freeway::model {

class Execution {
 public:
  static constexpr int kMaxCpus = kMaxThreads;

  Execution(const ProgramType& program, const Options& options);
  ~Execution();
  Execution(const Execution&) = delete;

  // From the start to where each thread announces its first operation.
  void begin();
  // Threads that can go on, as a bit mask.
  unsigned runnable() const;
  const Operation& pending(int thread) const { return *pending_[static_cast<std::size_t>(thread)]; }
  // The outcomes open to `thread`, newest first.
  void outcomes(int thread, std::vector<Timestamp>& choices) const;
  // The outcome that a choice sequence does not spell out.
  Timestamp usual_outcome(int thread) const;
  // Executes the pending operation; its record stays valid until the thread's next step. `index` names the transition.
  const Operation& step(int thread, Timestamp choice, int index);
  // All threads are done: the program's finish().
  void end();

  bool failed() const { return failed_; }
  const std::string& what() const { return what_; }
  void fail(const std::string& what);
  // Operations of the thread so far; the most it made in any execution.
  int operations(int thread) const { return operations_[static_cast<std::size_t>(thread)]; }
  int max_operations(int thread) const { return max_operations_[static_cast<std::size_t>(thread)]; }
  Memory& memory() { return memory_; }
  // What the thread's next operation has to do with those of others beside the words: the CPUs, as bits.
  struct Scope {
    unsigned runs, section, alone;  // on which it runs; in whose section it is; where that can be interrupted
    bool meets(const Scope& other) const {
      return ((alone & other.runs) | (runs & other.alone) | (section & other.section)) != 0;
    }
  };
  Scope scope(int thread) const;
  std::uint64_t observed() const { return observed_; }
  const std::vector<Weakening>& order_sites() const { return order_sites_; }
  void trace_into(std::vector<std::string>* lines) { trace_ = lines; }

  // What the program's words and functions call.
  static Execution* active();
  std::uint32_t epoch() const { return epoch_; }
  int register_atomic(const void* address, std::uint64_t initial);
  int register_plain(const void* address);
  bool setting_up() const { return stage_ == 0; }
  std::uint64_t perform(Operation& op);
  void access_plain(int field, bool write);
  void fence(Site site);
  void end_of_step();
  void go_to_cpu(int cpu);
  void begin_section();
  void end_section();
  void perform_special(Kind kind);
  void make_threads();
  void mark(const char* name);
  void check(bool condition, const char* what);
  void observe(std::uint64_t value) { observed_ = observed_ * 0x9E3779B97F4A7C15 + value + 1; }
  int thread() const { return running_ == kMainThread ? -1 : running_; }
  int stalled() const { return options_.stall_thread; }
  bool mutant(const char* name) const { return options_.mutant == name; }
  void name(const void* object, std::size_t bytes, const char* name, int index);

 private:
  struct NamedRange {
    const char* begin;
    std::size_t bytes;
    std::string name;
  };

  // Of a thread: its CPU, and the section that it is in.
  struct Place {
    int cpu;
    bool inside, begun, interrupted;
    int restarts;
  };

  static void thread_entry(int thread);
  static void main_entry(int stage);
  void resume(int thread);
  void needs_sleep_sets() const;
  void run_on_cpu(int thread);
  void leave_view(int thread);
  Timestamp to_learn(int thread, int location) const;
  void interrupt(int thread);
  void barrier(int thread);
  void fork(int thread);
  void run_main(int stage);
  void ask_program(int thread);
  std::string name_of(const void* address, const char* otherwise) const;
  void weaken(Operation& op);
  void remember_site(Site site, int orders);
  void trace_operation(int thread, const Operation& op, Timestamp choice);
  void trace_access(int thread, const std::string& name, bool write);
  void trace_line(int thread, const std::string& text);

  const ProgramType& program_;
  const Options& options_;
  std::unique_ptr<char[]> storage_;
  void* object_;
  std::array<Fiber, kMaxThreads + 1> fibers_;
  std::array<Operation*, kMaxThreads> pending_{};
  std::array<int, kMaxThreads> operations_{};
  std::array<int, kMaxThreads> max_operations_{};
  std::array<std::uint64_t, kMaxLocations> kept_bits_{};
  std::array<Place, kMaxThreads + 1> places_{};
  std::array<View, kMaxCpus> cpu_views_{};  // what was done in the CPU's sections
  Operation restart_{};
  unsigned runnable_ = 0;
  unsigned waiting_ = 0, unstarted_ = 0;  // threads that are made later, and those that just were
  int running_ = kMainThread;
  int stage_ = 0;  // 0: the constructor, 1: finish(), 2: threads
  std::uint32_t epoch_ = 0;
  Memory memory_;
  std::vector<NamedRange> names_;
  bool looking_ = false;  // the program looks at its words between two steps
  bool failed_ = false;
  std::string what_;
  std::uint64_t observed_ = 0;
  std::vector<Weakening> order_sites_;
  std::array<Site, 256> recent_sites_{};
  std::vector<std::string>* trace_ = nullptr;
};

}  // namespace freeway::model
