// SPDX-License-Identifier: MIT
//
// random_trace.h: makes random traces that look like programs: in phases, each with its own mix of calls and sizes.
// Phases that mostly allocate alternate with phases that mostly free; else the heap would stay in one state and its
// transitions untried.
#ifndef FREEWAY_TESTS_DIFFERENTIAL_RANDOM_TRACE_H
#define FREEWAY_TESTS_DIFFERENTIAL_RANDOM_TRACE_H

#include <iterator>

#include "tests/support/random.h"
#include "trace.h"

namespace freeway::test {

class RandomTrace {
 public:
  explicit RandomTrace(uint64_t seed, bool huge = false) : random_(seed), huge_(huge) { start_phase(); }

  Step next() {
    if (left_in_phase_-- == 0) start_phase();
    Step step;
    const uint64_t bits = random_.next();
    step.number = uint32_t(bits);
    step.slot = uint16_t(bits >> 32) & slot_mask_;
    step.shape = uint8_t(pick_shape() + kShapes * ((bits >> 48) % (256 / kShapes)));
    step.action = uint8_t(pick_action());
    return step;
  }

 private:
  void start_phase() {
    left_in_phase_ = 500 + random_.below(6000);
    // Few slots: the same blocks come and go (LIFO). Many: the heap fills and fragments.
    slot_mask_ = uint16_t((1u << (3 + random_.below(9))) - 1);
    first_shape_ = unsigned(random_.below(kLarge));
    second_shape_ = unsigned(random_.below(kShapes));
    second_percent_ = second_shape_ >= kLarge ? 3 : 30;
    const unsigned mood = unsigned(random_.below(4));
    free_percent_ = mood == 0 ? 15 : mood == 1 ? 60 : 35;
    realloc_percent_ = mood == 2 ? 30 : 8;
  }

  unsigned pick_shape() {
    const unsigned shape = random_.chance(second_percent_) ? second_shape_ : first_shape_;
    return shape == kHuge && !huge_ ? unsigned{kSmall} : shape;
  }

  Action pick_action() {
    const unsigned roll = unsigned(random_.below(1000));
    if (roll == 0) return Action::kTrim;
    if (roll < 10 * free_percent_) return Action::kFree;
    if (roll < 10 * (free_percent_ + realloc_percent_)) return Action::kRealloc;
    if (roll < 10 * (free_percent_ + realloc_percent_ + 6)) return Action::kCalloc;
    if (roll < 10 * (free_percent_ + realloc_percent_ + 10)) return Action::kAligned;
    if (roll < 10 * (free_percent_ + realloc_percent_ + 13)) return Action::kCheck;
    if (roll < 10 * (free_percent_ + realloc_percent_ + 14)) return kOthers[random_.below(std::size(kOthers))];
    return Action::kMalloc;
  }

  static constexpr Action kOthers[] = {Action::kReallocarray, Action::kSizedFree, Action::kPages,
                                       Action::kBatch,        Action::kFreeBatch, Action::kRefused};

  Random random_;
  const bool huge_;
  uint64_t left_in_phase_ = 0;
  uint16_t slot_mask_ = 0;
  unsigned first_shape_ = 0, second_shape_ = 0, second_percent_ = 0;
  unsigned free_percent_ = 0, realloc_percent_ = 0;
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_RANDOM_TRACE_H
