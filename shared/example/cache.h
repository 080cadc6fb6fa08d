// SPDX-License-Identifier: MIT
//
// cache.h: a hash table in a heap that processes share. Lock-free, and whoever is killed, wherever, leaks nothing.
//
// A bucket is one word: the offset of a Bucket, a block that says which entries there are and is never changed. Who
// changes a bucket makes another block and puts it there by one CAS. The winner of that CAS owns what it replaced;
// others may still read it, so it goes to the winner's limbo until no hazard names it (Michael 2004, "Hazard
// Pointers").
//
// Words     heads[i]     0 -> offset of a Bucket -> another's … (CAS). A Bucket comes there at most once
//           Bucket.seen  0 -> 1, by everybody who wants to replace it, before the CAS
//           Record       a worker's own, and outlives it: what it is about to do, its hazards, its limbo. Who takes the
//                        worker's place finishes or undoes it (settle)
//             step       kIdle: fresh_* are blocks that nobody else knows, or 0
//                        kTrying: the CAS is about to happen, or has. Which one can be told (was_put)
//                        kDone: it has. fresh_* are the table's, old_* are the record's
//             hazards    blocks that others must not free: the bucket that is read, an entry of it, the bucket to be
//                        put
//             limbo      blocks that were replaced; 0: an empty place
// Invariant each block is in exactly one of: a slot of a record (fresh_*, limbo), the table (in a bucket's word, or
//           named by such a Bucket). The heap keeps "in a slot or free" (alloc_into, free_from); the CAS moves a block
//           from the one to the other, and the step and was_put tell on which side of it a worker was killed
// Who       get, put, remove, settle: a record's worker, one thread. Who starts workers gives each a record: never one
//           to two that live, and to the next one only when the heap was recovered after the death of the one before
// Orders    [R1] the CAS publishes the Bucket and its entries; [A1] who reads the word sees them
//           [F1] a hazard is stored, then the word is read again; [F2] the word is changed, then the hazards are read:
//           one of the two sees the other
//           Between the dead and its successor the program's order is enough: the kernel says that a process is gone
//           after all that it did. Release keeps the compiler from changing that order
// ABA       none: a Bucket that a hazard names is not freed, and so does not come back
// Progress  lock-free. A worker that is stopped keeps kHazards blocks from being freed; each limbo has room for
//           everybody's
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace cache {

using Word = std::uint64_t;  // mostly an offset

inline std::atomic_ref<Word> atomic(Word& word) { return std::atomic_ref<Word>(word); }
inline Word load(Word& word) { return atomic(word).load(std::memory_order_acquire); }
inline void store(Word& word, Word value) { atomic(word).store(value, std::memory_order_release); }

inline Word hash_of(std::string_view text) {  // FNV-1a
  Word hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

struct Entry {
  std::uint32_t key_bytes, value_bytes;
  char bytes[];  // the key, the value

  std::string_view key() const { return {bytes, key_bytes}; }
  std::string_view value() const { return {bytes + key_bytes, value_bytes}; }
};

struct Bucket {
  struct Item {
    Word hash, entry;
  };
  Word seen;
  Word evicted;  // entries that had to make room, since the table was made
  Word count;
  Item items[];  // the newest last

  static std::size_t bytes(Word count) { return sizeof(Bucket) + count * sizeof(Item); }
};

constexpr Word kItems = 16;  // in a bucket: one more, and the oldest has to go
constexpr unsigned kMaxWorkers = 64;
constexpr unsigned kLimbo = 256;

enum Step : Word { kIdle, kTrying, kDone };
enum Hazard : unsigned { kOfBucket, kOfEntry, kOfFresh, kHazards };
static_assert(kLimbo >= kMaxWorkers * kHazards + 2, "a pass over the limbo leaves two places empty");

struct Record {
  Word step;
  Word head;                       // which bucket: an index
  Word fresh_bucket, fresh_entry;  // slots
  Word old_bucket, old_entry;      // what the CAS replaces; old_entry may be 0
  Word bucket_place, entry_place;  // indexes of the places in the limbo that they will have
  Word hazards[kHazards];
  Word limbo[kLimbo];  // slots
};

struct Header {
  Word buckets, workers;
  Word heads, records;  // offsets
};

enum class Change { kDone, kNothing, kNoMemory };

// What one worker has of the table. Heap: see freeway_heap.h.
template <class Heap> class Cache {
 public:
  // An empty table; its offset, or 0: no memory. To be called before there are workers: it is no single step.
  static Word make(Heap& heap, Word buckets, Word workers) {
    auto* header = static_cast<Header*>(heap.allocate(sizeof(Header)));
    void* heads = heap.allocate(buckets * sizeof(Word));
    void* records = heap.allocate(workers * sizeof(Record));
    if (header == nullptr || heads == nullptr || records == nullptr || workers > kMaxWorkers) return 0;
    std::memset(heads, 0, buckets * sizeof(Word));
    std::memset(records, 0, workers * sizeof(Record));
    *header = {buckets, workers, heap.offset(heads), heap.offset(records)};
    return heap.offset(header);
  }

  Cache(Heap& heap, Word at, unsigned worker)
      : heap_(heap),
        header_(*static_cast<Header*>(heap.pointer(at))),
        heads_(static_cast<Word*>(heap.pointer(header_.heads))),
        records_(static_cast<Record*>(heap.pointer(header_.records))),
        record_(records_[worker]) {}

  // Finishes or undoes what the worker before had begun. Who is killed in it leaves it to the next: each step may be
  // repeated.
  void settle() {
    if (load(record_.step) == kTrying && was_put()) store(record_.step, kDone);
    if (load(record_.step) == kDone) finish();
    give_up();
    forget();
  }

  // Copies the value; false: there is none.
  bool get(std::string_view key, std::string& value) {
    const Word hash = hash_of(key);
    const Found found = find(heads_[hash % header_.buckets], key, hash);
    if (found.entry != nullptr) value = found.entry->value();
    forget();
    return found.entry != nullptr;
  }

  // False: no memory, and nothing has changed.
  bool put(std::string_view key, std::string_view value) {
    const std::size_t bytes = sizeof(Entry) + key.size() + value.size();
    auto* entry = static_cast<Entry*>(heap_.alloc_into(&record_.fresh_entry, bytes));
    if (entry == nullptr) return false;
    entry->key_bytes = static_cast<std::uint32_t>(key.size());
    entry->value_bytes = static_cast<std::uint32_t>(value.size());
    std::memcpy(entry->bytes, key.data(), key.size());
    std::memcpy(entry->bytes + key.size(), value.data(), value.size());
    const bool done = change(key, record_.fresh_entry) == Change::kDone;
    if (!done) give_up();
    forget();
    return done;
  }

  // kNothing: there was no such key.
  Change remove(std::string_view key) {
    const Change change_made = change(key, 0);
    forget();
    return change_made;
  }

  // How many entries of the key's bucket had to make room.
  Word evictions(std::string_view key) {
    Word& head = heads_[hash_of(key) % header_.buckets];
    const Word at = protect(kOfBucket, head);
    const Word evicted = at == 0 ? 0 : bucket(at)->evicted;
    forget();
    return evicted;
  }

  // --- While no other worker is there. -------------------------------------------------------------------------------

  // Frees what lies in the limbo.
  void drain() { sweep(); }

  // Calls f(offset) for each block of the table.
  template <class F> void for_each_block(F&& f) {
    f(heap_.offset(&header_));
    f(header_.heads);
    f(header_.records);
    for (Word i = 0; i < header_.buckets; ++i) {
      if (heads_[i] == 0) continue;
      f(heads_[i]);
      for (Word k = 0; k < bucket(heads_[i])->count; ++k) f(bucket(heads_[i])->items[k].entry);
    }
  }

 private:
  struct Found {
    Word at;       // offset of the bucket's block, or 0; it is protected
    Word index;    // of the item; `count` of them: there is none
    Entry* entry;  // protected, or null
  };

  Bucket* bucket(Word offset) { return static_cast<Bucket*>(heap_.pointer(offset)); }

  // What the word names is not freed from now on, until the hazard names something else.
  Word protect(Hazard hazard, Word& head) {
    for (;;) {
      const Word at = load(head);
      atomic(record_.hazards[hazard]).store(at, std::memory_order_seq_cst);  // [F1] pairs with [F2]
      if (atomic(head).load(std::memory_order_seq_cst) == at) return at;     // [A1] pairs with [R1]
    }
  }

  void forget() {
    for (Word& hazard : record_.hazards) store(hazard, 0);
  }

  Found find(Word& head, std::string_view key, Word hash) {
    for (;;) {
      const Word at = protect(kOfBucket, head);
      if (at == 0) return {0, 0, nullptr};
      const Bucket& now = *bucket(at);
      bool changed = false;
      for (Word i = 0; i < now.count && !changed; ++i) {
        if (now.items[i].hash != hash) continue;
        atomic(record_.hazards[kOfEntry]).store(now.items[i].entry, std::memory_order_seq_cst);  // [F1] pairs with [F2]
        changed =
            atomic(head).load(std::memory_order_seq_cst) != at;  // else the entry was in the table, and is protected
        auto* entry = static_cast<Entry*>(heap_.pointer(now.items[i].entry));
        if (!changed && entry->key() == key) return {at, i, entry};
      }
      if (!changed) return {at, now.count, nullptr};
    }
  }

  // Puts the entry into the key's bucket, in the place of what there is; 0: removes what there is.
  Change change(std::string_view key, Word entry) {
    const Word hash = hash_of(key), index = hash % header_.buckets;
    Word& head = heads_[index];
    for (;;) {
      const Found found = find(head, key, hash);
      if (found.entry == nullptr && entry == 0) return Change::kNothing;
      if (!make_bucket(found, hash, entry)) return Change::kNoMemory;
      if (found.at != 0) store(bucket(found.at)->seen, 1);
      atomic(record_.hazards[kOfFresh]).store(record_.fresh_bucket, std::memory_order_seq_cst);
      store(record_.old_bucket, found.at);
      store(record_.head, index);
      find_places();
      store(record_.step, kTrying);
      Word expected = found.at;
      if (atomic(head).compare_exchange_strong(expected, record_.fresh_bucket, std::memory_order_seq_cst)) {  // [R1]
        store(record_.step, kDone);
        finish();
        return Change::kDone;
      }
      store(record_.step, kIdle);
      free(record_.fresh_bucket);
    }
  }

  // Fills fresh_bucket and old_entry. False: no memory.
  bool make_bucket(const Found& found, Word hash, Word entry) {
    const Bucket* old = found.at == 0 ? nullptr : bucket(found.at);
    const Word count = old == nullptr ? 0 : old->count;
    const bool evicts = found.entry == nullptr && count == kItems;
    const Word gone = evicts ? 0 : found.index;  // the item that is left out; `count`: none
    const Word kept = count - (gone < count ? 1 : 0);
    const Word fresh_count = kept + (entry != 0 ? 1 : 0);
    auto* fresh = static_cast<Bucket*>(heap_.alloc_into(&record_.fresh_bucket, Bucket::bytes(fresh_count)));
    if (fresh == nullptr) return false;
    fresh->seen = 0;
    fresh->evicted = (old == nullptr ? 0 : old->evicted) + (evicts ? 1 : 0);
    fresh->count = 0;
    for (Word i = 0; i < count; ++i)
      if (i != gone) fresh->items[fresh->count++] = old->items[i];
    if (entry != 0) fresh->items[fresh->count++] = {hash, entry};
    store(record_.old_entry, gone < count ? old->items[gone].entry : 0);
    return true;
  }

  // Whether the CAS of kTrying has happened. A bucket that is in its word was put there; one that is there no more was
  // seen by who replaced it. It cannot have been freed: a hazard of this record names it.
  bool was_put() {
    if (load(heads_[record_.head]) == record_.fresh_bucket) return true;
    return load(bucket(record_.fresh_bucket)->seen) != 0;
  }

  // From kDone: what is the table's is forgotten, what was replaced goes to the limbo.
  void finish() {
    store(record_.limbo[record_.bucket_place], record_.old_bucket);
    store(record_.limbo[record_.entry_place], record_.old_entry);
    store(record_.fresh_bucket, 0);
    store(record_.fresh_entry, 0);
    store(record_.step, kIdle);
  }

  // What nobody else has seen is freed.
  void give_up() {
    store(record_.step, kIdle);
    free(record_.fresh_bucket);
    free(record_.fresh_entry);
  }

  // Two empty places of the limbo.
  void find_places() {
    for (;;) {
      Word* const places[] = {&record_.bucket_place, &record_.entry_place};
      unsigned found = 0;
      for (unsigned i = 0; i < kLimbo && found < 2; ++i)
        if (record_.limbo[i] == 0) store(*places[found++], i);
      if (found == 2) return;
      sweep();
    }
  }

  // Frees what is in the limbo and no hazard names.
  void sweep() {
    Word hazards[kMaxWorkers * kHazards];
    unsigned count = 0;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (Word w = 0; w < header_.workers; ++w)
      for (Word& hazard : records_[w].hazards)
        hazards[count++] = atomic(hazard).load(std::memory_order_seq_cst);  // [F2] pairs with [F1]
    for (Word& block : record_.limbo) {
      bool named = false;
      for (unsigned i = 0; i < count && !named; ++i) named = hazards[i] == block;
      if (!named) free(block);
    }
  }

  void free(Word& slot) {
    if (slot != 0 && !heap_.free_from(&slot)) std::abort();  // no block: the table is broken
  }

  Heap& heap_;
  Header& header_;
  Word* heads_;
  Record* records_;
  Record& record_;
};

}  // namespace cache
