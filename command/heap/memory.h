// SPDX-License-Identifier: MIT
// memory.h: the memory of a process that is looked at: a running one's (live_memory.cc) or a core file's
// (core_memory.cc).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report.h"

namespace freeway_command {

struct Mapping {
  std::uint64_t begin = 0, end = 0;
  bool readable = false, writable = false, executable = false;
  std::uint64_t offset = 0;  // in the file, of `begin`
  std::string file;          // empty: of no file
};

// A thread that has been stopped, or was when the core file was written.
struct Thread {
  int id = 0;
  std::uint64_t stack = 0;             // its stack pointer
  std::uint64_t own = 0;               // the thread pointer: where its own data lies
  std::vector<std::uint64_t> content;  // of all its registers that may hold an address
};

class Memory {
 public:
  virtual ~Memory() = default;
  // Copies what lies at [address, address + bytes); false: not all of it can be had.
  virtual bool read(std::uint64_t address, void* to, std::size_t bytes) const = 0;
  // Why a read that should not have failed did, as a sentence with advice.
  virtual std::string why_unreadable() const = 0;

  // Calls f(from, to) for each part of [begin, end) that may hold anything but zeros; what it says of no part need not
  // be read.
  virtual void each_filled(std::uint64_t begin, std::uint64_t end,
                           const std::function<void(std::uint64_t, std::uint64_t)>& f) const {
    f(begin, end);
  }
  // Bytes of [begin, end) that are in memory; none where nobody knows.
  virtual std::optional<std::uint64_t> resident(std::uint64_t, std::uint64_t) const { return {}; }
  // Its mappings, as /proc/PID/maps has them.
  virtual std::string maps() const = 0;

  // By address, lowest first.
  const std::vector<Mapping>& mappings() const { return mappings_; }
  int pid() const { return pid_; }  // 0: not known
  std::size_t page_size() const { return page_size_; }
  const std::string& program() const { return program_; }        // its short name
  const std::string& executable() const { return executable_; }  // path of the file; may be empty
  bool is_live() const { return is_live_; }
  // Some address in the first thread's stack; 0: not known.
  std::uint64_t main_stack() const { return main_stack_; }
  const std::vector<Thread>& threads() const { return threads_; }  // of a core file: of a process see leaks/stopped.h
  const std::string& warning() const { return warning_; }  // what a reader of the answer must know; empty: nothing

 protected:
  std::vector<Mapping> mappings_;
  int pid_ = 0;
  std::size_t page_size_ = 0;
  std::string program_, executable_, warning_;
  bool is_live_ = false;
  std::uint64_t main_stack_ = 0;
  std::vector<Thread> threads_;
};

// Calls f(at, bytes) for each piece of [begin, end), which ends at a multiple of `most` or at `end`, until one is true.
// It ends in the last bytes of the address space, too, which a damaged core file may name.
template <class F> bool any_piece(std::uint64_t begin, std::uint64_t end, std::uint64_t most, F&& f) {
  for (std::uint64_t at = begin, bytes; at < end; at += bytes) {
    bytes = std::min(most - at % most, end - at);
    if (f(at, bytes)) return true;
  }
  return false;
}

// Throw Failure. A core file may have been written by the kernel or by gdb's gcore.
std::unique_ptr<Memory> live_memory(int pid);
// Why, most likely, the process may not be looked at, as a sentence with advice.
std::string forbidden(int pid);
// The process that `target` is the number of, or the program's name of; 0: it is the path of a core file. Throws where
// there is none, or several have the name.
int process_of(const std::string& target);
std::unique_ptr<Memory> core_memory(const std::string& path);
// Of a process, by its number or its program's name, or of a core file, by its path.
std::unique_ptr<Memory> memory_of(const std::string& target);

}  // namespace freeway_command
