// SPDX-License-Identifier: MIT
//
// shared_containers: std::vector in a file, in a heap that processes share (freeway/shared.hpp): a sorted list of words
// with how often each was counted. Each call is another process, which finds the list at another address.
//
//   shared_containers FILE count WORD...    counts them; makes the file if it is not there
//   shared_containers FILE list             prints the words, in order, with their counts
//   shared_containers FILE check            the blocks of the list are all that the heap has, and the heap is in order
//
// A container that a process is changing when it is killed is half changed for ever. So `count` changes a copy, and
// makes that the list by one atomic step. Killed before, it leaves the old list (and the copy's blocks). A lock of the
// file, which the kernel opens when its holder dies, keeps readers away from a list that is being freed.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <freeway/shared.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

// GCC's std::string and std::map keep plain addresses; its std::vector keeps what its allocator says.
using Text = std::vector<char, freeway::shared_allocator<char>>;
struct Word {
  Text text;
  std::size_t count;

  std::string_view view() const { return {text.data(), text.size()}; }
};
using List = std::vector<Word, freeway::shared_allocator<Word>>;
constexpr const char* kRoot = "words";

List* find(freeway_shared_t* heap) {
  return static_cast<List*>(freeway_shared_pointer(heap, freeway_shared_root_find(heap, kRoot)));
}

void count(List& list, std::string_view text) {
  const auto place = std::lower_bound(list.begin(), list.end(), text,
                                      [](const Word& word, std::string_view sought) { return word.view() < sought; });
  if (place != list.end() && place->view() == text) ++place->count;
  else list.insert(place, Word{Text(text.begin(), text.end(), list.get_allocator()), 1});
}

bool count_all(freeway_shared_t* heap, char** words, int number) {
  List* old = find(heap);
  const freeway::shared_allocator<Word> allocator(heap);
  List* changed = old != nullptr ? freeway::shared_new<List>(heap, *old) : freeway::shared_new<List>(heap, allocator);
  for (int i = 0; i < number; ++i) count(*changed, words[i]);
  if (freeway_shared_root_replace(heap, kRoot, freeway_shared_offset(heap, old),
                                  freeway_shared_offset(heap, changed)) != 0)
    return false;
  freeway::shared_delete(heap, old);
  return true;
}

bool print(freeway_shared_t* heap) {
  if (const List* list = find(heap))
    for (const Word& word : *list)
      std::printf("%zu %.*s\n", word.count, static_cast<int>(word.text.size()), word.text.data());
  return true;
}

bool check(freeway_shared_t* heap) {
  freeway_shared_audit_t audit = {};
  const std::size_t wrong = freeway_shared_audit(heap, &audit, sizeof(audit));
  std::size_t blocks = 0;
  if (const List* list = find(heap)) {
    blocks = 1 + (list->capacity() != 0);
    for (const Word& word : *list) blocks += word.text.capacity() != 0;
  }
  std::printf("%zu blocks, %zu of them the list's; %zu errors\n", audit.blocks, blocks, wrong);
  return wrong == 0 && audit.blocks == blocks;
}

freeway_shared_t* open_heap(int fd) {
  freeway_shared_t* made = freeway_shared_create(fd, nullptr, sizeof(freeway_shared_options_t));
  return made != nullptr || errno != EEXIST ? made : freeway_shared_attach(fd);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[2] : "";
  if (what != "count" && what != "list" && what != "check") {
    std::fprintf(stderr, "usage: %s FILE count WORD... | list | check\n", argv[0]);
    return 2;
  }
  const int fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  freeway_shared_t* heap = fd >= 0 && flock(fd, what == "count" ? LOCK_EX : LOCK_SH) == 0 ? open_heap(fd) : nullptr;
  if (heap == nullptr) {
    std::fprintf(stderr, "%s: %s\n", argv[1], std::strerror(errno));
    return 1;
  }
  const bool done = what == "count" ? count_all(heap, argv + 3, argc - 3) : what == "list" ? print(heap) : check(heap);
  freeway_shared_detach(heap);
  return done ? 0 : 1;
}
