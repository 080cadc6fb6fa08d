// SPDX-License-Identifier: MIT
#include "reports.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

// What one process left: see look/summary.cc, write_figures.
struct Report {
  pid_t pid = 0;
  std::string program, text;
  unsigned long long live_blocks = 0, slow_mallocs = 0, slow_frees = 0;

  unsigned long long activity() const { return slow_mallocs + slow_frees; }
};

// The number before `word` in the line of `text` that begins with `name`; 0 if there is none.
unsigned long long number_before(const std::string& word, const std::string& name, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  " + name + " ")) continue;
    std::istringstream words(line);
    for (std::string previous, each; words >> each; previous = each)
      if (each == word) return std::strtoull(previous.c_str(), nullptr, 10);
  }
  return 0;
}

Report read_report(const fs::path& path) {
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  Report report;
  report.pid = static_cast<pid_t>(std::atol(path.filename().c_str()));
  report.text = content.str();
  const std::string head = report.text.substr(0, report.text.find('\n'));
  const std::size_t begin = head.find(") in "), end = head.rfind(", process ");
  if (begin != std::string::npos && end != std::string::npos && begin + 5 < end)
    report.program = head.substr(begin + 5, end - begin - 5);
  report.live_blocks = number_before("blocks", "live", report.text);
  report.slow_mallocs = number_before("mallocs,", "slow path", report.text);
  report.slow_frees = number_before("frees;", "slow path", report.text);
  return report;
}

// Programs whose script may be nothing but the way to another program.
bool is_shell(const std::string& name) {
  for (const char* shell : {"sh", "dash", "bash", "ash", "busybox", "ksh", "zsh"})
    if (name == shell) return true;
  return false;
}

bool less_active(const Report& a, const Report& b) { return a.activity() < b.activity(); }

void show_others(const std::vector<Report>& reports, const Report* shown) {
  unsigned long long live = 0, mallocs = 0, frees = 0, count = 0;
  for (const Report& report : reports) {
    if (&report == shown) continue;
    ++count;
    live += report.live_blocks;
    mallocs += report.slow_mallocs;
    frees += report.slow_frees;
  }
  if (count == 0) return;
  std::fprintf(stderr, "freeway: and in %llu other process%s: %llu blocks live, slow path %llu mallocs, %llu frees\n",
               count, count == 1 ? "" : "es", live, mallocs, frees);
}

}  // namespace

Reports::Reports() {
  std::error_code error;
  std::string name = fs::temp_directory_path(error) / "freeway-XXXXXX";
  if (!error && mkdtemp(name.data()) != nullptr) folder_ = fs::absolute(name, error);
  if (!folder_.empty()) open_ = open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

Reports::~Reports() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  if (open_ >= 0) close(open_);
}

std::string Reports::destination() const {
  const std::string place = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(open_);
  return open_ < 0 || access(place.c_str(), X_OK) != 0 ? "" : "text:" + place + "/%p";
}

void Reports::show(pid_t started, const std::string& program, bool is_script) const {
  std::vector<Report> reports;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) reports.push_back(read_report(entry.path()));
  const auto own = std::find_if(reports.begin(), reports.end(), [=](const Report& r) { return r.pid == started; });
  const Report* shown = own != reports.end() ? &*own : nullptr;
  if (is_script && !reports.empty() && (shown == nullptr || is_shell(shown->program)))
    shown = &*std::max_element(reports.begin(), reports.end(), less_active);
  if (shown != nullptr) std::fputs(shown->text.c_str(), stderr);
  else
    std::fprintf(stderr, "freeway: no report of %s, process %ld: it did not end by exit\n", program.c_str(),
                 static_cast<long>(started));
  show_others(reports, shown);
}

}  // namespace freeway_command
