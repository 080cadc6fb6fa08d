// SPDX-License-Identifier: MIT
//
// What a tour of the allocator's instructions has visited: for each function of the interface and each of its paths, in
// figures for docs/proof.md; and the symbols of the library that have instructions which no drill executes.
//
// Fast path  instructions of the functions that a call goes through while a magazine serves it: the entry points, and
//            what realloc, calloc and aligned_alloc do around malloc and free
// Slow path  all others
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_TOUR_REPORT_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_TOUR_REPORT_H

#include <cxxabi.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/support/engine_under_test.h"
#include "tests/support/proof.h"
#include "tests/whole/signal/support/call_watch.h"
#include "tests/whole/signal/support/library_text.h"

namespace freeway_test {

// Without the arguments' types.
inline std::string demangled(const std::string& symbol) {
  int status = 0;
  char* name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 ? name : symbol;
  ::free(name);
  return result;
}

inline bool begins_with_any(const std::string& name, std::initializer_list<const char*> beginnings) {
  for (const char* beginning : beginnings)
    if (name.compare(0, std::strlen(beginning), beginning) == 0) return true;
  return false;
}

// `name` is demangled.
inline bool on_fast_path(const std::string& name) {
  if (begins_with_any(name, {"freeway_rseq_", "freeway_alone_", "freeway_malloc_slow", "freeway_free_slow",
                             "freeway_free_full", "freeway_send_home"}))
    return false;
  if (name.find("::") == std::string::npos || begins_with_any(name, {"operator "})) return true;
  for (const char* inner :
       {"::reallocate(", "::allocate_zeroed(", "::allocate_aligned(", "::usable(", "::usable_size("})
    if (name.find(inner) != std::string::npos) return true;
  return false;
}

// What no call of the drills can get to: the first call (first_call_test), reports of errors and the ends of the
// process (tests/abi), what is printed for people, audits, vfork (tests/whole/fork), FREEWAY_HARDEN, and what the
// linker adds.
inline bool is_outside_of_calls(const std::string& name) {
  if (name.find("::") == std::string::npos)
    return begins_with_any(name, {"_", "deregister", "register_tm", "frame_dummy", "freeway_audit", "freeway_vfork",
                                  "vfork", "malloc_info", "malloc_stats", "mallopt", "freeway_malloc_info",
                                  "freeway_malloc_stats", "freeway_mallopt", "freeway_version", "freeway_own_"});
  for (const char* part : {"::Line::",
                           "report",
                           "write_",
                           "Auditor",
                           "audit",
                           "option",
                           "Option",
                           "summary",
                           "finish",
                           "check_failed",
                           "classify",
                           "describe",
                           "each_class",
                           "::mode(",
                           "fill_tables",
                           "decide_mode",
                           "place_births",
                           "::start(",
                           "Substrate::start",
                           "throw_bad_alloc",
                           "complain",
                           "environment",
                           "process::rseq",
                           "usable_cpus",
                           "id_bound",
                           "rseq_area",
                           "rseq_decoy",
                           "own_rseq",
                           "choose_rseq",
                           "value_of",
                           "parse_memory_limits",
                           "least_limit",
                           "::owns(",
                           "privileged",
                           "choose_window",
                           "freeway::die(",
                           "freeway_start",
                           "process::cpus",
                           "can_interrupt_sections",
                           "single_threaded_flag",
                           "wipe_on_fork",
                           "prefer_huge",
                           "begins_block",
                           "place_random",
                           "freeway_finish"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

class TourReport {
 public:
  void prepare(const LibraryText& text) {
    text_ = &text;
    for (const std::string& symbol : text.functions) names_.push_back(demangled(symbol));
    only_ = ::getenv("FREEWAY_TOUR_ONLY");
    for (const std::string& name : names_) {
      is_outside_.push_back(is_outside_of_calls(name) || (only_ != nullptr && name.find(only_) == std::string::npos));
      is_fast_.push_back(on_fast_path(name));
    }
    for (size_t i = 0; i < text.instructions.size(); i++) {
      const bool same = i > 0 && text.instructions[i - 1].function == text.instructions[i].function;
      starts_.push_back(same ? starts_.back() : text.instructions[i].address);
    }
  }

  // By the instruction's index.
  bool is_wanted(size_t i) const {
    return !is_outside_[text_->instructions[i].function] && !text_->instructions[i].is_padding;
  }
  uintptr_t start_of_function(size_t i) const { return starts_[i]; }
  // $FREEWAY_TOUR_ONLY: only symbols whose names contain it are toured.
  bool is_partial() const { return only_ != nullptr; }

  // `visited`: [call][instruction]. `complete`: everything was tried; then what is missing is listed.
  void write(const std::atomic<bool>* visited, const char* what_happens, bool complete) const {
    const size_t count = text_->instructions.size();
    const char* engine = ::getenv("FREEWAY_TEST_ENGINE");
    std::vector<bool> by_any(count);
    size_t interruptions = 0;
    for (size_t call = 1; call < kCallCount; call++) {
      size_t of_path[2] = {};  // slow, fast
      for (size_t i = 0; i < count; i++) {
        if (!visited[call * count + i].load()) continue;
        by_any[i] = true;
        of_path[is_fast_[text_->instructions[i].function]]++;
      }
      for (const bool fast : {true, false}) {
        interruptions += of_path[fast];
        if (of_path[fast] == 0) continue;
        const std::string subject = (engine != nullptr ? std::string(engine) + ": " : std::string()) +
                                    kCallNames[call] + (fast ? ", fast path" : ", slow path");
        freeway::test::proof("instructions", subject.c_str(), what_happens, of_path[fast]);
      }
    }
    Line().count(interruptions, "stops: a function and an instruction; ").text(what_happens).write_to(1);
    if (engine == nullptr && complete) write_missing(by_any, what_happens);
  }

 private:
  void write_missing(const std::vector<bool>& visited, const char* what_happens) const {
    size_t all = 0, reached = 0;
    for (size_t from = 0, to; from < visited.size(); from = to) {
      std::string missing;
      size_t wanted = 0, here = 0;
      bool in_run = false;
      for (to = from; to < visited.size() && starts_[to] == starts_[from]; to++) {
        if (!is_wanted(to)) continue;
        wanted++;
        here += visited[to];
        if (!visited[to] && !in_run) {
          char offset[24];
          std::snprintf(offset, sizeof offset, " +%zx",
                        static_cast<size_t>(text_->instructions[to].address - starts_[to]));
          missing += offset;
        }
        in_run = !visited[to];
      }
      all += wanted;
      reached += here;
      if (here == wanted) continue;
      Line()
          .text("  not visited: ")
          .number(wanted - here)
          .text(" of ")
          .number(wanted)
          .text(" of ")
          .text(names_[text_->instructions[from].function].substr(0, 150).c_str())
          .text(": from")
          .text(missing.substr(0, 200).c_str())
          .write_to(1);
    }
    const char* mode = ::getenv("FREEWAY_RSEQ");
    const std::string subject =
        std::string("each instruction once, ") + (mode != nullptr && *mode == '0' ? "without rseq" : "with rseq");
    freeway::test::proof_most("instructions", subject.c_str(), what_happens, reached);
    freeway::test::proof_most("instructions", subject.c_str(), "in the library's text", all);
  }

  const LibraryText* text_ = nullptr;
  const char* only_ = nullptr;
  std::vector<std::string> names_;          // [function]
  std::vector<bool> is_outside_, is_fast_;  // [function]
  std::vector<uintptr_t> starts_;           // [instruction]: of its function
};

}  // namespace freeway_test
#endif
