// SPDX-License-Identifier: MIT
// memory.h: the memory of a process that is looked at: a running one's (live_memory.cc) or a core file's
// (core_memory.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace freeway_command {

// Why there is no answer, and what to do about it. `status`: see report.h.
struct Failure : std::runtime_error {
  Failure(int with, const std::string& message) : std::runtime_error(message), status(with) {}
  int status;
};

struct Mapping {
  std::uint64_t begin = 0, end = 0;
  bool readable = false, executable = false;
  std::string file;  // empty: of no file
};

class Memory {
 public:
  virtual ~Memory() = default;
  // Copies what lies at [address, address + bytes); false: not all of it can be had.
  virtual bool read(std::uint64_t address, void* to, std::size_t bytes) const = 0;
  // Why a read that should not have failed did, as a sentence with advice.
  virtual std::string why_unreadable() const = 0;

  // By address, lowest first.
  const std::vector<Mapping>& mappings() const { return mappings_; }
  int pid() const { return pid_; }  // 0: not known
  std::size_t page_size() const { return page_size_; }
  const std::string& program() const { return program_; }        // its short name
  const std::string& executable() const { return executable_; }  // path of the file; may be empty
  bool is_live() const { return is_live_; }
  const std::string& warning() const { return warning_; }  // what a reader of the answer must know; empty: nothing

 protected:
  std::vector<Mapping> mappings_;
  int pid_ = 0;
  std::size_t page_size_ = 0;
  std::string program_, executable_, warning_;
  bool is_live_ = false;
};

// Throw Failure. A core file may have been written by the kernel or by gdb's gcore.
std::unique_ptr<Memory> live_memory(int pid);
std::unique_ptr<Memory> core_memory(const std::string& path);
// Of a process, by its number, or of a core file, by its path.
std::unique_ptr<Memory> memory_of(const std::string& target);

}  // namespace freeway_command
