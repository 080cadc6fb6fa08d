// SPDX-License-Identifier: MIT
// largest_stacks.h: which stacks have most live bytes, for a page that is shown again and again. freeway-profile finds
// their functions, as a child, every now and then: for a large program that takes seconds.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "heap/heap.h"

namespace freeway_command {

class LargestStacks {
 public:
  LargestStacks() = default;
  LargestStacks(const LargestStacks&) = delete;
  LargestStacks& operator=(const LargestStacks&) = delete;
  ~LargestStacks();

  // Takes an answer that has come, and asks again when it is time. `waits`: returns with an answer.
  void look(const Heap& heap, bool waits);
  // What is known by now, as lines of up to 80 characters; of a process without a profile, how to get one.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void ask(const Heap& heap);
  void take(bool waits);

  std::vector<std::string> lines_;
  pid_t child_ = -1;
  int answer_ = -1;              // its standard output, a file in memory
  double asked_ = 0, next_ = 0;  // when; seconds
};

}  // namespace freeway_command
