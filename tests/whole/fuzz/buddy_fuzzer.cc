// SPDX-License-Identifier: MIT
//
// buddy_fuzzer.cc: bytes as options and calls of freeway/buddy.h, by one thread, against a plain model: an array that
// says of each smallest block whose it is. By one thread alone every answer is determined: a block is had exactly if
// one of its size is free.
//
// The managed memory does not exist: nothing may touch it.
//
//   bytes 0-7  the options
//   then       steps of 4 bytes: what to do, a size, a place (2 bytes)
#include <errno.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "freeway/buddy.h"
#include "fuzzer.h"
#include "step_mutator.h"

namespace freeway::test {

const char* const kFuzzerSubject = "buddy system";

namespace {

constexpr size_t kOptionBytes = 8;
constexpr size_t kStepBytes = 4;
constexpr size_t kMostManaged = size_t{1} << 20;

// What the header says of options, once more.
bool make_sense(const freeway_buddy_options_t& o) {
  const auto power = [](size_t n) { return n != 0 && (n & (n - 1)) == 0; };
  const unsigned forms = o.flags & (FREEWAY_BUDDY_UP | FREEWAY_BUDDY_PUBLISHED | FREEWAY_BUDDY_SPIN);
  if (o.flags >= 16 || (forms & (forms - 1)) != 0) return false;
  if (o.levels < 1 || o.levels > 40 || !power(o.min_block)) return false;
  if (o.levels_per_word != 1 && o.levels_per_word != 3 && o.levels_per_word != 4) return false;
  const int root = __builtin_ctzll(o.min_block) + static_cast<int>(o.levels) - 1;
  if (root >= 48) return false;  // what a process can address
  return o.max_block == 0 || (power(o.max_block) && o.max_block >= o.min_block && o.max_block <= size_t{1} << root);
}

freeway_buddy_options_t options_of(const uint8_t* b) {
  freeway_buddy_options_t o{};
  const bool wild = b[0] % 16 == 15;
  o.levels = wild ? static_cast<unsigned>(b[1]) - 2 : 1 + b[1] % 11;
  constexpr unsigned kPerWord[] = {1, 3, 4};
  o.levels_per_word = wild ? b[2] % 6 : kPerWord[b[2] % 3];
  const unsigned shift = wild ? b[3] % 64 : 3 + b[3] % 8;
  o.min_block = (size_t{1} << shift) + (wild && b[5] % 8 == 0);
  o.max_block = b[4] % 4 == 0 ? 0 : size_t{1} << (wild ? b[4] % 64 : shift + b[4] % o.levels);
  constexpr unsigned kForms[] = {0, FREEWAY_BUDDY_UP, FREEWAY_BUDDY_PUBLISHED, FREEWAY_BUDDY_SPIN};
  o.flags = wild ? b[6] % 32 : kForms[b[6] % 4];
  return o;
}

class Model {
 public:
  explicit Model(const freeway_buddy_options_t& options)
      : min_(options.min_block),
        managed_(options.min_block << (options.levels - 1)),
        max_(options.max_block == 0 ? managed_ : options.max_block),
        taken_(size_t{1} << (options.levels - 1), false) {}

  size_t managed() const { return managed_; }
  size_t max() const { return max_; }
  // The size of the block that holds `bytes`, which is at most max().
  size_t block_size(size_t bytes) const {
    size_t size = min_;
    while (size < bytes) size *= 2;
    return size;
  }
  bool is_free(size_t offset, size_t size) const {
    for (size_t at = offset; at < offset + size; at += min_)
      if (taken_[at / min_]) return false;
    return true;
  }
  bool any_free(size_t size) const {
    for (size_t offset = 0; offset < managed_; offset += size)
      if (is_free(offset, size)) return true;
    return false;
  }
  void take(size_t offset, size_t size) { mark(offset, blocks_[offset] = size, true); }
  void give(size_t offset) {
    mark(offset, blocks_[offset], false);
    blocks_.erase(offset);
  }
  // 0: no block begins there.
  size_t size_at(size_t offset) const {
    const auto found = blocks_.find(offset);
    return found == blocks_.end() ? 0 : found->second;
  }
  const std::map<size_t, size_t>& blocks() const { return blocks_; }

 private:
  void mark(size_t offset, size_t size, bool value) {
    for (size_t at = offset; at < offset + size; at += min_) taken_[at / min_] = value;
  }
  const size_t min_, managed_, max_;
  std::vector<bool> taken_;
  std::map<size_t, size_t> blocks_;
};

class Run {
 public:
  Run(const freeway_buddy_options_t& options, size_t metadata_bytes)
      : options_(options), model_(options), metadata_bytes_(metadata_bytes), metadata_(aligned_alloc(64, rounded())) {
    // Dirty where it will be cleared.
    memset(metadata_, (options.flags & FREEWAY_BUDDY_ZEROED) != 0 ? 0 : 0xa5, rounded());
    buddy_ = freeway_buddy_create(metadata_, metadata_bytes, base(), &options);
    if (buddy_ == nullptr) broken("create refuses good options");
  }
  ~Run() { free(metadata_); }
  Run(const Run&) = delete;

  void step(const uint8_t* s) {
    const size_t place = static_cast<size_t>(s[2]) | static_cast<size_t>(s[3]) << 8;
    switch (s[0] % 12) {
      case 0:
      case 1:
      case 2: return allocate(asked(s[1], place));
      case 3:
      case 4: return allocate_at(address(place), asked(s[1], place >> 3));
      case 5: return extend(block(place), asked(s[1], place >> 5));
      case 6:
      case 7:
      case 8: return release(block(place));
      case 9: return s[1] % 2 == 0 ? release(address(place)) : measure(address(place));
      case 10: freeway_buddy_scatter(place); return statistics();
      default: return s[1] % 2 == 0 ? repair(place) : corrupt(s[1], place);
    }
  }

  // All blocks can be freed, and then all of it can be had.
  void finish() {
    statistics();
    while (!model_.blocks().empty()) release(base() + model_.blocks().begin()->first);
    statistics();
    allocate(model_.max());
  }

 private:
  // Far from everything; only its distance from the metadata matters.
  static char* base() { return reinterpret_cast<char*>(uintptr_t{1} << 44); }
  size_t rounded() const { return (metadata_bytes_ + 63) / 64 * 64; }
  bool published() const { return (options_.flags & FREEWAY_BUDDY_PUBLISHED) != 0; }

  size_t asked(uint8_t code, size_t number) const {
    if (code >= 250) return SIZE_MAX >> (code - 250) * 12;
    const size_t size = options_.min_block << code % (options_.levels + 1);
    return size + (code / 16 % 4 == 0 ? number % 3 - 1 : code / 16 % 4 == 1 ? 0 : -(number % size));
  }
  // Mostly within what is managed, aligned to smallest blocks.
  char* address(size_t place) const {
    const size_t offset = place / 4 * options_.min_block % (model_.managed() + 2 * options_.min_block);
    return base() + offset + (place % 16 == 0 ? 1 : 0) - (place % 64 == 1 ? options_.min_block : 0);
  }
  // One of those that are in use, if there are any.
  char* block(size_t place) const {
    if (model_.blocks().empty()) return address(place);
    auto it = model_.blocks().lower_bound(place * options_.min_block % model_.managed());
    if (it == model_.blocks().end()) it = model_.blocks().begin();
    return base() + it->first;
  }
  size_t offset(const char* address) const { return static_cast<size_t>(address - base()); }

  void expect(bool condition, const char* what) {
    if (!condition) broken(what);
  }
  void expect_error(int error, const char* what) {
    if (errno != error) broken(what);
  }

  void allocate(size_t bytes) {
    errno = 0;
    auto* got = static_cast<char*>(freeway_buddy_alloc(buddy_, bytes));
    const bool could = bytes <= model_.max() && model_.any_free(model_.block_size(bytes));
    if (got == nullptr) {
      expect(!could, "alloc refuses though a block is free");
      return expect_error(ENOMEM, "alloc: errno");
    }
    expect(could, "alloc gives a block that cannot be free");
    expect_error(0, "alloc: errno changed by success");
    accept(got, bytes);
  }
  void accept(const char* got, size_t bytes) {
    const size_t size = model_.block_size(bytes), at = offset(got);
    expect(at < model_.managed() && at % size == 0, "a block lies where none can");
    expect(model_.is_free(at, size), "a block is handed out twice");
    model_.take(at, size);
    expect(freeway_buddy_usable_size(buddy_, base() + at) == size, "a new block has another size");
  }
  void allocate_at(char* where, size_t bytes) {
    errno = 0;
    check_at(static_cast<char*>(freeway_buddy_alloc_at(buddy_, where, bytes)), where, bytes);
  }
  void check_at(const char* got, const char* where, size_t bytes) {
    const int error = errno;
    const size_t at = offset(where);
    int expected = 0;
    if (bytes > model_.max()) expected = ENOMEM;
    else if (at >= model_.managed() || at % model_.block_size(bytes) != 0) expected = EINVAL;
    else if (!model_.is_free(at, model_.block_size(bytes))) expected = EBUSY;
    expect((got == nullptr) == (expected != 0) && error == expected, "alloc_at: another answer");
    if (got == nullptr) return;
    expect(got == where, "alloc_at gives another address");
    accept(got, bytes);
  }
  void extend(char* block, size_t bytes) {
    const size_t size = size_at(block);
    errno = 0;
    auto* got = static_cast<char*>(freeway_buddy_extend(buddy_, block, bytes));
    if (size != 0) return check_at(got, block + size, bytes);
    expect(got == nullptr && errno == EINVAL, "extend of what is no block");
  }
  size_t size_at(const char* address) const {
    return offset(address) < model_.managed() ? model_.size_at(offset(address)) : 0;
  }
  void release(char* address) {
    const size_t size = size_at(address);
    errno = 0;
    const int result = freeway_buddy_free(buddy_, address);
    expect(result == (size != 0 ? 0 : -1), "free: another answer");
    expect_error(size != 0 ? 0 : EINVAL, "free: errno");
    if (size != 0) model_.give(offset(address));
  }
  void measure(char* address) {
    errno = 0;
    expect(freeway_buddy_usable_size(buddy_, address) == size_at(address), "usable_size: another answer");
    expect_error(size_at(address) != 0 ? 0 : EINVAL, "usable_size: errno");
  }
  void statistics() {
    freeway_buddy_stats_t stats;
    expect(freeway_buddy_stats(buddy_, &stats) == 0, "stats refused");
    size_t used = 0, largest = 0;
    for (const auto& [at, size] : model_.blocks()) used += size;
    for (size_t size = model_.max(); size >= options_.min_block && largest == 0; size /= 2)
      if (model_.any_free(size)) largest = size;
    expect(stats.managed == model_.managed() && stats.metadata == metadata_bytes_, "stats: constants");
    expect(stats.used == used && stats.blocks == model_.blocks().size(), "stats: blocks");
    expect(stats.largest_free == (published() ? 0 : largest), "stats: largest free block");
  }
  // Nobody was killed: there is nothing to find.
  void repair(size_t place) {
    errno = 0;
    if (place % 2 == 0) return expect(freeway_buddy_repair(buddy_, nullptr, 0) == 0, "repair refused");
    char* const where = address(place);
    const size_t bytes = asked(static_cast<uint8_t>(place >> 4), place);
    const bool good =
        bytes <= model_.max() && offset(where) < model_.managed() && offset(where) % model_.block_size(bytes) == 0;
    expect(freeway_buddy_repair(buddy_, where, bytes) == (good ? 0 : -1), "repair: another answer");
    expect_error(good ? 0 : EINVAL, "repair: errno");
  }
  // A bit of the header's constants changes: nobody can attach. When it is back, they can.
  void corrupt(uint8_t code, size_t place) {
    constexpr size_t kWords[] = {0, 8, 16, 64, 72, 80};  // what is constant: see shared_buddy.h
    const size_t word = kWords[code / 2 % 6];
    uint8_t& byte = static_cast<uint8_t*>(metadata_)[word + place % (word == 80 ? 4 : 8)];
    const auto bit = static_cast<uint8_t>(1 << place / 8 % 8);
    byte ^= bit;
    errno = 0;
    expect(freeway_buddy_attach(metadata_) == nullptr && errno == EINVAL, "attach accepts a damaged header");
    byte ^= bit;
    expect(freeway_buddy_attach(metadata_) == buddy_, "attach refuses a good header");
    expect(freeway_buddy_attach(static_cast<char*>(metadata_) + 1) == nullptr, "attach accepts a misaligned address");
  }

  const freeway_buddy_options_t options_;
  Model model_;
  const size_t metadata_bytes_;
  void* const metadata_;
  freeway_buddy_t* buddy_ = nullptr;
};

}  // namespace
}  // namespace freeway::test

using namespace freeway::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kOptionBytes) return 0;
  const freeway_buddy_options_t options = options_of(data);
  errno = 0;
  const size_t metadata = freeway_buddy_metadata_size(&options);
  ++operations;
  if ((metadata != 0) != make_sense(options) || errno != (metadata != 0 ? 0 : EINVAL))
    broken("options: another answer");
  if (metadata == 0 || options.min_block << (options.levels - 1) > kMostManaged || options.levels > 11) return 0;
  freeway_buddy_scatter(data[7]);
  Run run(options, metadata);
  for (size_t at = kOptionBytes; at + kStepBytes <= size; at += kStepBytes) {
    run.step(data + at);
    ++operations;
  }
  run.finish();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (size < kOptionBytes || seed % 16 == 0) return LLVMFuzzerMutate(data, size, most);
  return kOptionBytes +
         mutate_steps(data + kOptionBytes, size - kOptionBytes, most - kOptionBytes, seed / 16, kStepBytes);
}
