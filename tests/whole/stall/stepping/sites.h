// SPDX-License-Identifier: MIT
//
// sites.h: every place in src/ and papers/ that is marked with Env::step("name"): found in the sources, so that a mark
// that no test stops at is noticed.
#ifndef FREEWAY_TESTS_STALL_STEPPING_SITES_H
#define FREEWAY_TESTS_STALL_STEPPING_SITES_H

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/engine_under_test.h"
#include "tests/whole/signal/support/failure.h"
#include "tests/whole/signal/support/heap_account.h"

namespace freeway_test {

struct Site {
  std::string file;  // from src/ on, or from the root: papers/…
  int line;
  std::string name;
  bool again = false;  // there is another of this name in the file: the line tells them apart

  bool is_at(const char* its_name, const char* its_file, int its_line) const {
    if (std::strcmp(its_name, name.c_str()) != 0 || (again && its_line != line)) return false;
    const size_t length = std::strlen(its_file);
    return length >= file.size() && std::strcmp(its_file + length - file.size(), file.c_str()) == 0;
  }
};

inline std::string contents_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Of nbbs: the algorithms as published and behind a lock, which promise nothing (GUARANTEES.md).
inline bool promises_nothing(const std::string& file) {
  return file.starts_with("papers/nbbs/published") || file == "papers/nbbs/spin_tree.h";
}

// The marks in code that the library which is malloc here was made from: those in the layers that all share and in its
// engine's own folder, as far as their templates are instantiated, so that their names are in its file.
inline std::vector<Site> sites_of_this_library() {
  const char* const root = std::getenv("FREEWAY_SOURCE_DIR");
  require(root != nullptr, "FREEWAY_SOURCE_DIR is not set");
  const char* const engine = std::getenv("FREEWAY_TEST_ENGINE");
  std::vector<std::string> folders = {"src"};
  if (engine != nullptr) folders.insert(folders.end(), {"papers/front", std::string("papers/") + engine});
  Dl_info library = {};
  require(::dladdr(::dlsym(RTLD_DEFAULT, "freeway_audit"), &library) != 0, "no library of ours");
  const std::string binary = contents_of(library.dli_fname);

  std::vector<Site> sites;
  std::vector<std::filesystem::path> files;
  for (const std::string& folder : folders)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(root) / folder))
      files.push_back(entry.path());
  for (const std::filesystem::path& path : files) {
    std::string file = path.lexically_relative(root).string();
    if (file.starts_with("src/")) file.erase(0, 4);
    if (!file.ends_with(".h") && !file.ends_with(".cc")) continue;
    if (file.find("/tests/") != std::string::npos || promises_nothing(file)) continue;
    std::ifstream in(path);
    std::string text;
    for (int line = 1; std::getline(in, text); line++) {
      constexpr char kMark[] = "step(\"";
      const size_t at = text.find(kMark);
      if (at == std::string::npos) continue;
      const size_t begin = at + sizeof kMark - 1;
      const std::string name = text.substr(begin, text.find('"', begin) - begin);
      if (binary.find(name + '\0') != std::string::npos) sites.push_back({file, line, name});
    }
  }
  std::sort(sites.begin(), sites.end(),
            [](const Site& a, const Site& b) { return a.file != b.file ? a.file < b.file : a.line < b.line; });
  for (size_t i = 1; i < sites.size(); i++)
    for (size_t j = 0; j < i; j++)
      if (sites[i].file == sites[j].file && sites[i].name == sites[j].name) sites[i].again = sites[j].again = true;
  const auto is_own = [&](const Site& site) {
    return site.file.starts_with(folders.back() == "src" ? "" : folders.back());
  };
  require(std::any_of(sites.begin(), sites.end(), is_own), "no steps: is this the library for this test?");
  return sites;
}

// Places that this form of the library does not come to; another run of this test does, unless said otherwise.
inline bool belongs_to_another_form(const Site& site) {
  const std::string& name = site.name;
  const char* const order = std::getenv("FREEWAY_PARTIAL_LIST");
  const bool lifo = order != nullptr && std::strcmp(order, "lifo") == 0;
  const char* const harden = std::getenv("FREEWAY_HARDEN");
  const char* const guard = std::getenv("FREEWAY_GUARD");
  const bool is_careful = harden != nullptr && std::strcmp(harden, "1") == 0;
  if (freeway::test::on_flagship()) {
    // With guards at the ends of large blocks it is about those alone.
    if (name.starts_with("ends.") != (guard != nullptr && std::strchr(guard, ',') != nullptr)) return true;
    // While a profile is made it is about what that brings.
    const bool of_profiles = name.starts_with("sites.") || name.starts_with("live.") || name.starts_with("profile.") ||
                             name.starts_with("wanted.") || name.starts_with("gap.") || name.starts_with("peak.") ||
                             name == "heap.sampling" || name == "own.sampling" || name == "strip.unfollowing";
    if (of_profiles != (std::getenv("FREEWAY_PROFILE") != nullptr)) return true;
    if (name.starts_with("gap.")) return !rseq_mode();  // bytes are counted in sections
    const bool of_heaps_slabs = site.file == "heap/slab_place.h" || name.starts_with("own.slab") ||
                                name == "own.opening" || name == "own.putting_in" || name == "own.closing" ||
                                name == "own.emptied";
    if (name == "strip.gathered") return !rseq_mode() || is_careful;  // for magazines
    if (name == "strip.found") return rseq_mode() && !is_careful;     // where there are none
    if (of_heaps_slabs) return !rseq_mode() || is_careful;
    if (name == "own.strip_taken" || name == "own.putting_strip") return rseq_mode() && !is_careful;
    const bool of_guards = name.starts_with("guard.");
    const bool of_rest = name.starts_with("quarantine.") || name.starts_with("scattered.") ||
                         name.starts_with("random.") || name == "births.leaf";
    const bool of_magazines =
        name.starts_with("magazine.") && name != "magazine.freeing" && name != "magazine.emptying";
    const bool of_kept_slabs =
        name == "spare.entered" || name == "spare.settled" || name == "spare.marked" || name == "spare.judged";
    const bool of_cpus = name.starts_with("drain.") || name == "heap.seized" || name == "heap.installed";
    if (name == "visit.ending") return true;  // a trim that meets a destroy: tests/heap/visit_model.cc stops there
    if (name == "superblock.stealing") return true;  // several NUMA nodes: the models have two
    if (name.starts_with("roots.")) return true;     // of heaps that processes share: their models
    if (of_guards) return guard == nullptr;
    if (of_rest) return !is_careful;
    if (name.starts_with("way.") || name.starts_with("usage."))
      return is_careful;  // blocks are where they are at random
    if (of_magazines || name == "heap.direct") return is_careful;
    return rseq_mode() || is_careful ? of_kept_slabs : of_cpus;
  }
  // What all share is the flagship's matter, but for the lists.
  if (!site.file.starts_with("papers/") && site.file != "sync/tagged_stack.h") return true;
  if (site.file == "papers/lfmalloc/protection.h") return rseq_mode();  // hashed heaps, and CPUs' heaps
  if (site.file == "papers/lfmalloc/cpu_table.h") return !rseq_mode();
  if (name.starts_with("michael.lifo") || name.starts_with("michael.fifo"))
    return name.starts_with("michael.lifo") != lifo;
  // Only where two threads meet in it at the same moment: papers/michael/tests/heap_model.cc stops there.
  if (name == "michael.active.return") return true;
  // Where a thread ends whose page blocks are full, and what others do with those: in remotely_freed_model.cc there.
  if (name == "remote.orphan" || name == "remote.adopt" || name == "remote.hand_over") return true;
  // Of a handler inside its own thread's heap: papers/hmalloc/tests/inheritance_model.cc stops there.
  return name == "hmalloc.late";
}

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_STALL_STEPPING_SITES_H
