// SPDX-License-Identifier: MIT
//
// file_states.h: states of a shared heap's file, for tests that go through a process by single steps: whether a step
// has changed the file, and what it was then: its words, and which pages of its frames have memory.
#ifndef FREEWAY_TESTS_SHARED_FILE_STATES_H
#define FREEWAY_TESTS_SHARED_FILE_STATES_H

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "shared/tests/shared_file.h"
#include "tests/whole/signal/support/failure.h"

namespace freeway_test {

// What of the file can be in use in a small heap of so many bytes, without the blocks' contents. The parts follow each
// other as shared/layout.h has them.
struct Part {
  uint64_t at, bytes;
};
inline std::vector<Part> parts_in_use(int fd, size_t capacity) {
  uint64_t begins[7];  // slabs, entries, backing, hints, bits, states, data
  require(::pread(fd, begins, sizeof(begins), 32) == sizeof(begins), "header");
  constexpr uint64_t kClasses = 46;
  const uint64_t frames = capacity >> 16;
  return {{0, 8192},
          {begins[0], begins[1] - begins[0]},
          {begins[1], frames * 8},
          {begins[2], frames},
          {begins[3], kClasses * 8},
          {begins[4], frames * 512},
          {begins[5], frames * 4096}};
}

// All of the file at this process's own address.
class Mapping {
 public:
  explicit Mapping(const File& fd)
      : file_(&fd),
        bytes_(fd.length()),
        begin_(static_cast<char*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0))) {
    require(begin_ != MAP_FAILED, "no mapping");
  }
  Mapping(const Mapping&) = delete;
  ~Mapping() { ::munmap(begin_, bytes_); }
  char* at(uint64_t offset) const { return begin_ + offset; }
  const File& file() const { return *file_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const File* file_;
  size_t bytes_;
  char* begin_;
};

class Snapshot {
 public:
  // The heap's tables were filled.
  Snapshot(const Mapping& file, const std::vector<Part>& parts) : parts_(&parts), frames_(frames_begin(file.file())) {
    for (const Part& part : parts) bytes_.insert(bytes_.end(), file.at(part.at), file.at(part.at) + part.bytes);
    find_pages(file);
  }
  // Whether it was another one.
  bool update(const Mapping& file) {
    bool changed = false;
    char* mine = bytes_.data();
    for (const Part& part : *parts_) {
      if (::memcmp(mine, file.at(part.at), part.bytes) != 0) {
        ::memcpy(mine, file.at(part.at), part.bytes);
        changed = true;
      }
      mine += part.bytes;
    }
    if (file.file().taken() != taken_) {
      find_pages(file);
      changed = true;
    }
    return changed;
  }
  void put(const Mapping& file) const {
    require(::madvise(file.at(frames_), file.bytes() - frames_, MADV_REMOVE) == 0, "no holes",
            static_cast<uint64_t>(errno));
    for (const Part& pages : pages_)
      require(::fallocate(file.file(), 0, static_cast<off_t>(pages.at), static_cast<off_t>(pages.bytes)) == 0,
              "no pages");
    const char* mine = bytes_.data();
    for (const Part& part : *parts_) {
      ::memcpy(file.at(part.at), mine, part.bytes);
      mine += part.bytes;
    }
  }

 private:
  // Those of the frames that have memory.
  void find_pages(const Mapping& file) {
    pages_.clear();
    taken_ = file.file().taken();
    for (off_t at = static_cast<off_t>(frames_); (at = ::lseek(file.file(), at, SEEK_DATA)) >= 0;) {
      const off_t end = ::lseek(file.file(), at, SEEK_HOLE);
      pages_.push_back({static_cast<uint64_t>(at), static_cast<uint64_t>(end - at)});
      at = end;
    }
  }

  const std::vector<Part>* parts_;
  uint64_t frames_;
  std::vector<char> bytes_;
  std::vector<Part> pages_;
  size_t taken_ = 0;
};

}  // namespace freeway_test
#endif
