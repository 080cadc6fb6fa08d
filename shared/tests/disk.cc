// SPDX-License-Identifier: MIT
//
// A heap on a disk that gets full (disks.py): what was given out can be written to, also after it was written back; and
// a heap that is attached again after its file system was mounted anew.
//
//   shared_disk FOLDER          makes FOLDER/heap; what it leaves there stays
//   shared_disk FOLDER again    finds it
#include <sys/statvfs.h>

#include <cstdio>

#include "shared/tests/use_up.h"
#include "tests/whole/signal/support/failure.h"

namespace {
using namespace freeway_test;

constexpr size_t kLeft = size_t{12} << 20;  // bytes of the disk that the heap may have
constexpr size_t kKept = 1000;

struct Table {
  uint64_t slots[kKept];
};

// Leaves as much of the disk.
void fill_up_but(const std::string& folder, size_t bytes) {
  const File fd(::open((folder + "/ballast").c_str(), O_RDWR | O_CREAT, 0600));
  const std::vector<char> piece(65'536, 'x');
  for (struct statvfs disk = {};;) {
    require(::fstatvfs(fd, &disk) == 0, "statvfs");
    if (disk.f_bavail * disk.f_frsize <= bytes) break;
    require(::write(fd, piece.data(), piece.size()) > 0, "no ballast", static_cast<uint64_t>(errno));
  }
  require(::fsync(fd) == 0, "ballast");
}

void write_all(freeway_shared_t* heap, const std::vector<void*>& blocks, int value) {
  for (void* block : blocks) ::memset(block, value, ::freeway_shared_usable_size(heap, block));
  ::sync();
}

void make(const std::string& folder) {
  const File fd(::open((folder + "/heap").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  const Heap heap = make_heap(fd, size_t{1} << 30);
  require(heap != nullptr, "no heap", static_cast<uint64_t>(errno));
  auto* table = static_cast<Table*>(::freeway_shared_calloc(heap, 1, sizeof(Table)));
  require(::freeway_shared_root_replace(heap, "table", 0, ::freeway_shared_offset(heap, table)) == 0, "no table");
  for (uint64_t& slot : table->slots) {
    auto* number = static_cast<uint64_t*>(::freeway_shared_alloc_into(heap, &slot, sizeof(uint64_t)));
    require(number != nullptr, "alloc_into");
    *number = slot;
  }
  const auto die = [&] {
    if (::freeway_shared_malloc(heap, 100) != nullptr) ::kill(::getpid(), SIGKILL);
    return 1;
  };
  require(in_child(die) == kKilled && ::freeway_shared_recover(heap) == 1, "a child that was killed is not recovered");

  fill_up_but(folder, kLeft);
  for (int round = 0; round < 2; round++) {
    std::vector<void*> blocks;
    require(use_up(heap, blocks) == 0 && blocks.size() > 100, "a disk that gets full", blocks.size());
    ::sync();
    write_all(heap, blocks, 1);
    fill_up(folder.c_str());
    write_all(heap, blocks, 2);  // there is no room for anything now
    write_all(heap, blocks, 3);
    for (void* block : blocks) require(::freeway_shared_free(heap, block) == 0, "free");
    const size_t before = fd.taken(), trimmed = ::freeway_shared_trim(heap);
    require(trimmed > kLeft / 2, "hardly anything was trimmed", trimmed);
    require(fd.taken() + trimmed <= before + kLeft / 8, "what was trimmed is still taken", before, fd.taken());
    require(::unlink((folder + "/rest").c_str()) == 0, "unlink");
    ::sync();
  }
  require(::freeway_shared_audit(heap, nullptr, 0) == 0, "audit");
  std::puts("made");
}

void find(const std::string& folder) {
  const File fd(::open((folder + "/heap").c_str(), O_RDWR));
  const Heap heap(::freeway_shared_attach(fd));
  require(heap != nullptr, "attach", static_cast<uint64_t>(errno));
  const auto* table = static_cast<Table*>(::freeway_shared_pointer(heap, ::freeway_shared_root_find(heap, "table")));
  for (const uint64_t slot : table->slots)
    require(*static_cast<uint64_t*>(::freeway_shared_pointer(heap, slot)) == slot, "a block's contents", slot);
  require(stats_of(heap).blocks == kKept + 2, "blocks", stats_of(heap).blocks);  // the table, and the killed child's
  require(::freeway_shared_audit(heap, nullptr, 0) == 0, "audit");
  std::puts("found");
}

}  // namespace

int main(int argc, char** argv) {
  require(argc >= 2, "no folder");
  if (argc > 2) find(argv[1]);
  else make(argv[1]);
  return 0;
}
