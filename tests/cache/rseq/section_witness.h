// SPDX-License-Identifier: MIT
//
// SectionWitness: interrupts a restartable section once, at one instruction, and sees what becomes of it: the thread
// must arrive at the section's abort address, exactly once, and find everything as it was when the function began,
// since nothing was committed. Breakpoints on the function's first instruction (where the state is written down), on
// the instruction itself, and on the abort address. One thread; x86-64 only.
//
// State     of every slab that is installed: tops, current superblocks, capacities, the blocks in the magazines (with
//           their birth bytes, where there are any) and how much room is above them. What lies above is nobody's yet:
//           sections prepare it before they commit. Not a slab's gap: what is interrupted may count twice. Of a section
//           on bitmap words (arch/alone.h): the words
// Aborts    the kernel also aborts a section when the thread is preempted: such aborts are told by its context switches
#ifndef FREEWAY_TESTS_RSEQ_SECTION_WITNESS_H
#define FREEWAY_TESTS_RSEQ_SECTION_WITNESS_H
#if defined(__x86_64__)

#include <sys/resource.h>
#include <ucontext.h>

#include <csignal>
#include <cstdint>
#include <cstring>

#include "cache/hot.h"
#include "cache/slab.h"
#include "tests/whole/signal/support/failure.h"
#include "tests/whole/signal/support/library_text.h"

namespace freeway_test {

// Words written down, to be compared.
class State {
 public:
  void clear() { count_ = 0; }
  void add(uint64_t word) {
    require(count_ < kMost, "more state than expected", count_);
    words_[count_++] = word;
  }
  size_t words() const { return count_; }
  bool operator==(const State& other) const {
    return count_ == other.count_ && std::memcmp(words_, other.words_, 8 * count_) == 0;
  }

  void add_slabs(const freeway::Hot& hot) {
    for (const auto& entry : hot.slab_of) {
      const freeway::Slab* slab = entry.load_relaxed();
      if (slab != nullptr && reinterpret_cast<uint64_t>(slab) != hot.null_slab) add_slab(hot, *slab);
    }
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  static uint64_t word_at(uint64_t address) { return *reinterpret_cast<const volatile uint64_t*>(address); }

  void add_slab(const freeway::Hot& hot, const freeway::Slab& slab) {
    const bool checked = hot.checked != 0;
    for (unsigned c = 0; c < freeway::Slab::kClasses; c++) {
      add(slab.current[c].load_relaxed());
      add(slab.capacity[c].load_relaxed());
      const uint64_t top = slab.top[c].load_relaxed();
      add(top);
      if (top == 0) continue;
      for (uint64_t at = top - 8; word_at(at) != 0; at -= 8) {
        add(word_at(at));
        if (checked && static_cast<int64_t>(word_at(at)) > 0) add(birth_of(hot, c, word_at(at)));
      }
      uint64_t end = top;
      while (word_at(end) != 0) end += 8;
      add(end);
    }
  }

  // The byte that says whether a block is live; see src/harden/births.h.
  static uint64_t birth_of(const freeway::Hot& hot, unsigned c, uint64_t block) {
    const uint64_t scaled = block * hot.birth_scale[c] >> 8;
    return *reinterpret_cast<const volatile unsigned char*>(hot.birth_base[c] + scaled);
  }

  size_t count_ = 0;
  uint64_t words_[kMost];
};

class SectionWitness {
 public:
  // `function`: its first instruction. `fill`: called before the state is written down, or null.
  void start(const LibraryText& text, const RestartableSection& section, uintptr_t function, uintptr_t instruction,
             void (*fill)()) {
    active_ = this;
    hot_ = reinterpret_cast<const freeway::Hot*>(text.variable("freeway_hot"));
    require(hot_ != nullptr, "the library has no symbol table");
    section_ = &section;
    restart_ = target_of_jump(section.abort);
    entry_.set(function);
    abort_.set(section.abort);
    instruction_.set(instruction);
    fill_ = fill;
    on_words_ = section.name == "freeway_section_clear_bits" ? 1 : section.name == "freeway_section_set_each" ? 2 : 0;
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void* context) { active_->on_trap(static_cast<ucontext_t*>(context)); };
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGTRAP, &action, nullptr);
    entry_.plant();
  }
  bool interrupted() const { return interrupted_; }
  // No breakpoints any more. Fails unless the interrupted section went to its abort address.
  void finish() {
    entry_.clear(), abort_.clear(), instruction_.clear();
    require(!interrupted_ || aborts_ == 1, "interrupted, but not aborted once", aborts_);
  }

  // Of both, for the account; in memory that the caller shares.
  struct Counts {
    uint64_t aborts, words_compared, preempted;
  };
  Counts counts() const { return {aborts_, before_.words(), preempted_}; }

 private:
  class Int3 {
   public:
    void set(uintptr_t address) {
      address_ = address;
      saved_ = *byte();
    }
    uintptr_t address() const { return address_; }
    void plant() { *byte() = 0xcc; }
    void clear() { *byte() = saved_; }

   private:
    volatile unsigned char* byte() const { return reinterpret_cast<volatile unsigned char*>(address_); }
    uintptr_t address_ = 0;
    unsigned char saved_ = 0;
  };

  static uintptr_t target_of_jump(uintptr_t address) {
    const auto* code = reinterpret_cast<const unsigned char*>(address);
    if (code[0] == 0xeb) return address + 2 + static_cast<uintptr_t>(static_cast<signed char>(code[1]));
    int distance;
    std::memcpy(&distance, code + 1, sizeof distance);
    require(code[0] == 0xe9, "no jump at an abort address", address);
    return address + 5 + static_cast<uintptr_t>(static_cast<intptr_t>(distance));
  }

  static uint64_t switches() {
    rusage usage;
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw);
  }

  void write_down(State& state) const {
    state.clear();
    state.add_slabs(*hot_);
    for (size_t i = 0; i < words_; i++) state.add(*word_[i]);
  }

  // The words that the section is about to change, by the arguments of its function.
  void find_words(const ucontext_t* context) {
    const auto first = static_cast<uintptr_t>(context->uc_mcontext.gregs[REG_RDI]);
    words_ = 0;
    if (on_words_ == 1) word_[words_++] = reinterpret_cast<volatile uint64_t*>(first);
    if (on_words_ != 2) return;
    const auto end = static_cast<uintptr_t>(context->uc_mcontext.gregs[REG_RSI]);
    for (uintptr_t change = first; change < end && words_ < std::size(word_); change += 16)
      word_[words_++] = *reinterpret_cast<volatile uint64_t* const*>(change);
  }

  void on_trap(ucontext_t* context) {
    greg_t& ip = context->uc_mcontext.gregs[REG_RIP];
    greg_t& flags = context->uc_mcontext.gregs[REG_EFL];
    constexpr greg_t kTrapFlag = 0x100;
    const auto arrived = static_cast<uintptr_t>(ip);
    if (stepping_) {  // over the function's first instruction
      stepping_ = false;
      flags &= ~kTrapFlag;
      if (!interrupted_) entry_.plant();
      return;
    }
    if (arrived == section_->abort) return at_instruction();
    ip = static_cast<greg_t>(arrived - 1);
    if (arrived - 1 == entry_.address()) {
      at_entry(context);
      flags |= kTrapFlag;
      stepping_ = true;
    } else if (arrived - 1 == abort_.address()) {
      at_abort();
      ip = static_cast<greg_t>(restart_);
    } else {
      fail("a trap where none was planted: a section was interrupted, but not aborted", arrived, section_->abort);
    }
  }

  void at_entry(ucontext_t* context) {
    entry_.clear();
    if (interrupted_) return;
    instruction_.clear();
    abort_.clear();
    if (fill_ != nullptr) fill_();
    find_words(context);
    write_down(before_);
    switches_ = switches();
    instruction_.plant();
    abort_.plant();
  }

  // The kernel has moved the thread to the abort address, whose breakpoint is next.
  void at_instruction() {
    require(!interrupted_, "a second interruption");
    interrupted_ = true;
    instruction_.clear();
    write_down(after_);
    require(after_ == before_, "a section that was interrupted before its commit has changed something",
            instruction_.address() - section_->start, section_->start);
    switches_ = switches();
    aborted_now_ = false;
  }

  void at_abort() {
    const uint64_t now = switches();
    const bool expected = interrupted_ && !aborted_now_;
    if (expected) {
      aborted_now_ = true;
      aborts_ = aborts_ + 1;
    } else {
      require(now != switches_, "aborted without a signal and without having been preempted", now, switches_);
      preempted_ = preempted_ + 1;
    }
    switches_ = now;
  }

  static inline SectionWitness* active_ = nullptr;
  const freeway::Hot* hot_ = nullptr;  // the library's
  uintptr_t restart_ = 0;
  const RestartableSection* section_ = nullptr;
  Int3 entry_, abort_, instruction_;
  void (*fill_)() = nullptr;
  int on_words_ = 0;  // 1: the first argument names a word; 2: two arguments, a list of changes
  size_t words_ = 0;
  volatile uint64_t* word_[64];
  volatile bool interrupted_ = false, stepping_ = false, aborted_now_ = false;
  volatile uint64_t aborts_ = 0, preempted_ = 0;
  uint64_t switches_ = 0;
  State before_, after_;
};

}  // namespace freeway_test
#endif  // __x86_64__
#endif
