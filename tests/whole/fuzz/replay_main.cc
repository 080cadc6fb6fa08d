// SPDX-License-Identifier: MIT
//
// replay_main.cc: runs kept inputs of a fuzzer once each: files, and folders of files. Passes if none broke a promise,
// and if there were inputs and they really ran operations.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fuzzer.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

void list(const std::string& path, std::vector<std::string>& files) {
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) {
    files.push_back(path);
    return;
  }
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') list(path + "/" + entry->d_name, files);
  closedir(folder);
}

// Mapped, not read into a block: what is under test may be malloc.
bool run(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (fd < 0 || fstat(fd, &status) != 0) return false;
  const auto size = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, size + 1, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (data == MAP_FAILED) return false;
  // Written before, so that it is known which input it was if the process ends.
  dprintf(2, "  %s\n", path.c_str());
  LLVMFuzzerTestOneInput(static_cast<const uint8_t*>(data), size);
  munmap(data, size + 1);
  return true;
}

}  // namespace
}  // namespace freeway::test

using namespace freeway::test;

int main(int argc, char** argv) {
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) list(argv[i], files);
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    if (run(file)) continue;
    dprintf(2, "cannot be read: %s\n", file.c_str());
    return 1;
  }
  proof("fuzzing", kFuzzerSubject, "inputs replayed", files.size());
  proof("fuzzing", kFuzzerSubject, "operations replayed", operations);
  // An input that decodes to nothing tries nothing.
  if (files.empty() || operations < 10 * files.size()) {
    dprintf(2, "%zu inputs, %llu operations: too few to be a corpus\n", files.size(),
            static_cast<unsigned long long>(operations));
    return 1;
  }
  return 0;
}
