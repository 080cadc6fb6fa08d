// SPDX-License-Identifier: MIT
#include "largest_stacks.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>

#include "heap/dump_text.h"
#include "look.h"
#include "profile.h"
#include "report.h"

namespace freeway_command {
namespace {

using std::uint64_t;

constexpr std::size_t kStacks = 3, kWidth = 80;
constexpr double kLeastPause = 10;  // seconds between two answers
constexpr double kRest = 20;        // times what an answer took of a CPU

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}
double now() { return static_cast<double>(now_ns()) / 1e9; }

struct Stack {
  uint64_t bytes = 0;
  std::string functions;  // the innermost first
};

// "main;grow;malloc_wrapper 1234": the innermost last. Of many functions those that fit.
Stack parse(const std::string& line) {
  constexpr std::size_t kRoom = kWidth - 22;
  const std::size_t blank = line.rfind(' ');
  Stack stack;
  if (blank == std::string::npos) return stack;
  stack.bytes = std::strtoull(line.c_str() + blank, nullptr, 10);
  for (std::size_t end = blank; end != std::string::npos;) {
    const std::size_t semicolon = line.rfind(';', end - 1);
    const std::size_t begin = end == 0 || semicolon == std::string::npos ? 0 : semicolon + 1;
    const std::string name = harmless(line.substr(begin, end - begin));
    if (stack.functions.empty()) stack.functions = name.substr(0, kRoom);
    else if (stack.functions.size() + 3 + name.size() <= kRoom) stack.functions += " < " + name;
    else break;
    end = begin == 0 ? std::string::npos : semicolon;
  }
  return stack;
}

std::vector<std::string> lines_of(const std::string& collapsed) {
  std::vector<Stack> stacks;
  double all = 0;
  std::istringstream text(collapsed);
  for (std::string line; std::getline(text, line);) {
    stacks.push_back(parse(line));
    all += static_cast<double>(stacks.back().bytes);
  }
  std::stable_sort(stacks.begin(), stacks.end(), [](const Stack& a, const Stack& b) { return a.bytes > b.bytes; });
  stacks.resize(std::min(stacks.size(), kStacks));
  std::vector<std::string> lines{stacks.empty() ? "largest stacks: no live block was sampled"
                                                : "largest stacks, by live bytes (more: freeway profile top)"};
  for (const Stack& each : stacks) {
    char figures[32];
    std::snprintf(figures, sizeof(figures), "  %10s %4.0f %%  ", in_units(each.bytes).c_str(),
                  100 * static_cast<double>(each.bytes) / all);
    lines.push_back(figures + each.functions);
  }
  return lines;
}

std::string content_of(int file) {
  std::string text;
  char piece[4096];
  for (ssize_t got = 0; (got = pread(file, piece, sizeof(piece), static_cast<off_t>(text.size()))) > 0;)
    text.append(piece, static_cast<std::size_t>(got));
  return text;
}

}  // namespace

LargestStacks::~LargestStacks() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  if (answer_ >= 0) close(answer_);
}

void LargestStacks::look(const Heap& heap, bool waits) {
  take(false);
  if (child_ < 0 && now() >= next_) ask(heap);
  if (waits) take(true);
}

void LargestStacks::ask(const Heap& heap) {
  if (!Samples(heap).exist()) {
    lines_ = {"largest stacks: only with a heap profile (freeway run --profile -- PROGRAM)"};
    next_ = now() + kLeastPause;  // the program may begin one
    return;
  }
  asked_ = now();
  next_ = asked_ + kLeastPause;
  const int question = file_of(profile_of(heap));
  if (answer_ < 0) answer_ = file_of("");
  if (question >= 0 && answer_ >= 0 && ftruncate(answer_, 0) == 0 && lseek(answer_, 0, SEEK_SET) == 0)
    child_ = start_profile_program({"convert", "--format=collapsed", "--sample=inuse_space", "-"}, question, answer_,
                                   /*is_quiet=*/true);
  if (question >= 0) close(question);
  if (child_ < 0) lines_ = {"largest stacks: there is no freeway-profile here, which finds their functions"};
}

void LargestStacks::take(bool waits) {
  if (child_ < 0) return;
  int status = 0;
  rusage used = {};
  pid_t done = 0;
  while ((done = wait4(child_, &status, waits ? 0 : WNOHANG, &used)) < 0 && errno == EINTR) {}
  if (done == 0) return;
  child_ = -1;
  const double cost = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  next_ = std::max(next_, asked_ + kRest * cost);
  if (done > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) lines_ = lines_of(content_of(answer_));
  else lines_ = {"largest stacks: freeway-profile failed (see: freeway profile top)"};
}

}  // namespace freeway_command
