// SPDX-License-Identifier: MIT
// profiled.cc: `freeway run --profile`: each process writes its profile when it ends by exit; before a signal ends the
// program, it is read from outside.
#include "profiled.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "heap/dump_text.h"
#include "last_look.h"
#include "look.h"
#include "report.h"

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

// The files of this program in this folder: NAME.PID.NUMBER.heap.
class Files {
 public:
  explicit Files(const std::string& program) : name_(fs::path(program).filename().native()) {
    std::replace(name_.begin(), name_.end(), ',', '_');  // it is a part of FREEWAY_PROFILE
    std::error_code error;
    folder_ = fs::current_path(error);
    before_ = all();
  }
  // As FREEWAY_PROFILE names them; relative where the folder's path cannot be a part of that.
  std::string prefix() const {
    return folder_.native().find(',') == std::string::npos ? (folder_ / name_).native() : name_;
  }
  // Those that have come, by name.
  std::vector<std::string> fresh() const {
    std::vector<std::string> found;
    for (const std::string& each : all())
      if (!before_.contains(each)) found.push_back(each);
    return found;
  }
  bool is_of(const std::string& file, pid_t process) const {
    return file.starts_with(name_ + "." + std::to_string(process) + ".");
  }

 private:
  std::set<std::string> all() const {
    std::set<std::string> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error))
      if (const std::string file = entry->path().filename(); file.starts_with(name_ + ".") && file.ends_with(".heap"))
        found.insert(file);
    return found;
  }
  std::string name_;
  fs::path folder_;
  std::set<std::string> before_;
};

// A number of the dump's header.
std::uint64_t number_in(const std::string& header, const std::string& key) {
  const std::size_t at = header.find(" " + key + "=");
  return at == std::string::npos ? 0 : std::strtoull(header.c_str() + at + key.size() + 2, nullptr, 10);
}

std::string rate_in_words(std::uint64_t bytes) {
  if (bytes >= 1 << 20) return std::to_string(bytes >> 20) + "m";
  return bytes >= 1 << 10 ? std::to_string(bytes >> 10) + "k" : std::to_string(bytes);
}

// What to say of a profile of so few samples that chance decides what is in it; empty: there are enough.
std::string advice(const std::string& file) {
  constexpr std::uint64_t kEnough = 32, kWanted = 1024, kLeast = 64;
  std::ifstream dump(file);
  std::string first, version, header;
  std::getline(dump, first);
  std::getline(dump, version);
  std::getline(dump, header);
  const std::uint64_t samples = number_in(header, "samples"), interval = number_in(header, "interval");
  if (samples >= kEnough || interval <= 1) return {};
  // About interval * samples bytes were allocated: a power of two that takes about so many as are wanted.
  std::uint64_t rate = 1;
  while (rate * 2 <= interval * (samples + 1) / kWanted) rate *= 2;
  if (rate < kLeast) rate = 1;
  return "it has only " + std::to_string(samples) + " sample" + (samples == 1 ? "" : "s") +
         ": little was allocated for one in " + in_units(interval) + "; take --profile=" + rate_in_words(rate) +
         (rate == 1 ? " (every block)" : "");
}

void say(const std::string& text) { std::fprintf(stderr, "freeway: %s\n", text.c_str()); }

// Writes what the program has by now. Throws Failure.
void write_profile_of(pid_t program, const std::string& prefix) {
  const auto memory = live_memory(program);
  const Heap heap(*memory);
  write_new(profile_of(heap), [begin = prefix + "." + std::to_string(program)](int number) {
    return begin + "." + std::to_string(number) + ".heap";
  });
}

void report(const Files& files, const Ended& ended) {
  std::vector<std::string> all = files.fresh();
  const auto own = std::find_if(all.begin(), all.end(), [&](const auto& each) { return files.is_of(each, ended.pid); });
  if (own != all.end()) {
    say("heap profile written to " + *own + "; look: freeway profile top " + *own);
    if (const std::string more = advice(*own); !more.empty()) say(more);
    all.erase(own);
  } else if (WIFSIGNALED(ended.status)) {
    say("no heap profile of the program: signal " + std::to_string(WTERMSIG(ended.status)) + " ended it");
  } else {
    say("no heap profile of the program: it did not end by exit, or cannot write to this folder");
  }
  if (!all.empty())
    say("and of " + std::to_string(all.size()) + " other process" + (all.size() == 1 ? "" : "es") + ": " + all.front() +
        (all.size() == 1 ? "" : " ... " + all.back()));
}

}  // namespace

int run_for_profile(const std::string& interval, const std::string& program,
                    const std::function<Ended(const std::function<void(pid_t)>&)>& start) {
  const Files files(program);
  const std::string setting = interval + ",dump=peak,prefix=" + files.prefix();
  setenv("FREEWAY_PROFILE", setting.c_str(), 1);
  hold_next();
  const Ended ended = start([&](pid_t child) {
    const LastLook last(child, [&](int) {
      try {
        write_profile_of(child, files.prefix());
      } catch (const Failure& failure) { fail(failure.status, failure.what()); }
    });
  });
  if (ended.pid < 0) return fail(kRunFailed, "run: --profile: no process can be started");
  report(files, ended);
  return end_like(ended);
}

}  // namespace freeway_command
