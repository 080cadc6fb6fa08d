// SPDX-License-Identifier: MIT
#include "leaks/leaked.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>

#include "command/profile/readable.h"
#include "heap/places.h"
#include "leaks/search.h"
#include "leaks/stopped.h"
#include "look.h"
#include "profile.h"
#include "profile/gap.h"
#include "report.h"

namespace freeway_command {

using std::uint64_t;

namespace {

void add(Tally& tally, uint64_t bytes) { tally += {1, bytes}; }

std::string profile_text(const Leaks& leaks, const Samples& samples, const Memory& memory) {
  std::vector<DumpedSite> sites;
  for (const auto& [number, each] : leaks.sites) {
    const Tally here{each.direct.blocks + each.indirect.blocks, each.direct.bytes + each.indirect.bytes};
    sites.push_back({&each.site,
                     here,
                     {each.site.counts.allocated, each.site.counts.allocated_bytes},
                     " age_ms=" + std::to_string(each.age / here.blocks) + " direct=" +
                         std::to_string(each.direct.blocks) + " indirect=" + std::to_string(each.indirect.blocks)});
  }
  return dump_text(samples, memory, sites, " leaks=1", "");
}

// glibc's dynamic linker: its file's name is ld-linux-x86-64.so.2, or ld-2.31.so. (musl's is its C library, too.)
bool is_linker(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  return name.starts_with("ld-linux") || (name.starts_with("ld-") && name[3] >= '0' && name[3] <= '9');
}

// What the dynamic linker has allocated for threads belongs to it, though they have ended and nothing but their old
// stacks knows of it. So it is with LeakSanitizer.
void reach_linker_s(Search& search, const Samples& samples, const Memory& memory) {
  std::vector<uint64_t> blocks;
  for (const SampledBlock& each : samples.blocks()) {
    if (search.look(each.address) != Search::Found::kUnreached) continue;
    const Site* const site = samples.site(each.site);
    if (site == nullptr || site->frames.empty()) continue;
    for (const Mapping& mapping : memory.mappings())
      if (site->frames[0] - mapping.begin < mapping.end - mapping.begin && is_linker(mapping.file))
        blocks.push_back(each.address);
  }
  search.reach_from(blocks);
}

void count(Leaks& leaks, const Heap& heap, const Samples& samples, const Search& search) {
  const uint64_t now = samples.now();
  double variance = 0;
  for (const SampledBlock& each : samples.blocks()) {
    const Site* const site = samples.site(each.site);
    if (site == nullptr || site->interval != leaks.interval) continue;  // of an earlier profile
    ++leaks.looked_at;
    const Search::Found what = search.look(each.address);
    if (what != Search::Found::kUnreached && what != Search::Found::kHeld) continue;
    LeakingSite& leaking = leaks.sites.try_emplace(each.site, LeakingSite{*site, {}, {}, 0}).first->second;
    const bool is_direct = what == Search::Found::kUnreached;
    add(is_direct ? leaks.direct : leaks.indirect, each.bytes);
    add(is_direct ? leaking.direct : leaking.indirect, each.bytes);
    leaking.age += now > each.born ? now - each.born : 0;
    const double share = freeway::profile::sampled_share(each.bytes, leaks.interval);
    if (share <= 0) continue;
    const auto bytes = static_cast<double>(each.bytes);
    leaks.blocks += 1 / share;
    leaks.bytes += bytes / share;
    variance += (1 - share) / (share * share) * bytes * bytes;
  }
  leaks.deviation = std::sqrt(variance);
  leaks.profile = profile_text(leaks, samples, heap.memory());
}

std::string headline(const Leaks& leaks) {
  const std::string name = leaks.program + " (" + std::to_string(leaks.pid) + "): ";
  const bool all = leaks.interval <= 1;
  // As the table below it has them.
  using freeway_profile::bytes_in_words, freeway_profile::count_in_words;
  const auto count = [](uint64_t n) { return count_in_words(static_cast<double>(n)); };
  const auto blocks = [&count](uint64_t n, const char* what) { return count(n) + what + (n == 1 ? "" : "s"); };
  if (!leaks.any()) return name + "no leaks among " + blocks(leaks.looked_at, all ? " block" : " sampled block");
  std::string text = name + "leaked: " + bytes_in_words(leaks.bytes);
  if (!all) text += " ± " + bytes_in_words(leaks.deviation);
  text += " in " + blocks(static_cast<uint64_t>(std::llround(leaks.blocks)), " block");
  if (!all) text += ", estimated from " + blocks(leaks.direct.blocks + leaks.indirect.blocks, " sample");
  return text + ": " + count(leaks.direct.blocks) + " direct, " + count(leaks.indirect.blocks) + " indirect";
}

// The table of the profile's stacks; false: there is no program for it here.
bool print_table(const std::string& profile, int fd) {
  const int file = file_of(profile);
  if (file < 0) return false;
  const pid_t child = start_profile_program({"top", "-"}, file, fd);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  close(file);
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void write_text(int fd, const std::string& text) {
  std::FILE* const out = fd == STDOUT_FILENO ? stdout : stderr;
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

}  // namespace

Leaks find_leaks(const Memory& memory, const std::vector<Thread>& threads) {
  const Heap heap(memory);
  const Samples samples(heap);
  Leaks leaks;
  leaks.program = harmless(memory.program());
  leaks.pid = memory.pid();
  leaks.mappings = memory.mappings();
  if (!samples.exist()) throw Failure(kCannot, samples.fault());
  if (threads.empty())
    throw Failure(kCannot, "there are no registers of threads in the core file: it is damaged or truncated");
  leaks.interval = samples.interval();
  leaks.lost = samples.lost_stacks() + samples.lost_blocks();
  Search search(heap);
  for (const Thread& each : threads) search.reach_from(each.content);
  search.reach_from(roots_of(heap, samples, threads));
  reach_linker_s(search, samples, memory);
  search.follow_unreached();
  count(leaks, heap, samples, search);
  return leaks;
}

Leaks find_leaks(int pid, int signal) {
  const Stopped stopped(pid, signal);
  const auto memory = live_memory(pid);
  return find_leaks(*memory, stopped.threads());
}

void print_leaks(const Leaks& leaks, int fd, const std::string& head) {
  write_text(fd, head + headline(leaks) + "\n");
  if (leaks.lost != 0)
    write_text(fd, head + std::to_string(leaks.lost) +
                       " more samples found no room in the profile's tables, and were not looked at (a larger interval "
                       "takes " "fewer)\n");
  if (!leaks.any() || print_table(leaks.profile, fd)) return;
  for (const auto& [number, each] : leaks.sites) {
    std::string text = "  " + std::to_string(each.direct.bytes + each.indirect.bytes) + " bytes in " +
                       std::to_string(each.direct.blocks + each.indirect.blocks) + " samples, allocated at";
    for (const uint64_t frame : each.site.frames) text += " " + place_of(leaks.mappings, frame);
    write_text(fd, text + "\n");
  }
}

void write_profile(const Leaks& leaks, const std::string& path) { write_chosen(leaks.profile, path); }

void write_profile_of(const Leaks& leaks, const std::string& prefix, int pid) {
  write_new(leaks.profile, [begin = prefix + "." + std::to_string(pid)](int number) {
    return begin + (number == 1 ? "" : "." + std::to_string(number)) + ".heap";
  });
}

}  // namespace freeway_command
