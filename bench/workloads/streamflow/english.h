// SPDX-License-Identifier: MIT
//
// english.h: a little English: a dictionary for the link parser, and sentences drawn at random that it mostly accepts.
#ifndef FREEWAY_BENCH_STREAMFLOW_ENGLISH_H
#define FREEWAY_BENCH_STREAMFLOW_ENGLISH_H

#include <vector>

#include "support/measure.h"

namespace links {

// As many sentences allocate about 787 million objects (Table 1).
inline constexpr long kStreamflowSentences = 78'500;

// S subject and verb, O verb and object, D determiner and noun, A adjective and noun, J preposition and noun,
// M noun and what follows it, E verb and what follows it, F adverb before verb, R "who" and verb, T verb and "that",
// C "that" and subject. Subscripts: s singular, p plural.
inline constexpr const char* kEnglish = R"(
  the my some: D+;
  a every this: Ds+;
  these many few: Dp+;
  big black old little clever tired: A+;
  man dog cat park hill telescope snake house girl river:
    {@A-} & Ds- & {@M+} & (O- or J- or ({C-} & Ss+));
  men dogs cats parks hills telescopes snakes houses girls rivers:
    {@A-} & {Dp-} & {@M+} & (O- or J- or ({C-} & Sp+));
  Mary John Anna: O- or J- or ({C-} & Ss+);
  with in on near under behind: J+ & (M- or E-);
  who: M- & R+;
  sees chases likes finds: {F-} & (Ss- or R-) & O+ & {@E+};
  see chase like find: {F-} & (Sp- or R-) & O+ & {@E+};
  saw chased liked found: {F-} & (S- or R-) & O+ & {@E+};
  ran slept sang waited: {F-} & (S- or R-) & {@E+};
  said thought knew: {F-} & (S- or R-) & (T+ or {@E+});
  that: T- & C+;
  often never quickly: F+ or E-;
  yesterday here again: E-;
)";

// Draws sentences: noun phrases with prepositions and relative clauses, verbs with objects or with "that" and a
// sentence.
class SentenceSource {
 public:
  explicit SentenceSource(std::uint64_t seed) : random_(seed) {}

  // The next sentence; in one of eight two words are exchanged, so that the parser sees wrong ones, too.
  const std::vector<const char*>& next() {
    words_.clear();
    sentence(3);
    if (one_in(8)) std::swap(words_[random_.below(words_.size())], words_[random_.below(words_.size())]);
    return words_;
  }

 private:
  enum Number { kSingular, kPlural };

  bool one_in(std::uint64_t n) { return random_.below(n) == 0; }

  template <std::size_t N> void say(const char* const (&choice)[N]) { words_.push_back(choice[random_.below(N)]); }

  // `depth`: how many more clauses and prepositional phrases may lie inside each other.
  void sentence(unsigned depth) {
    const Number number = noun_phrase(depth);
    if (one_in(6)) say({"often", "never", "quickly"});
    verb_phrase(depth, number);
  }

  Number noun_phrase(unsigned depth) {
    if (one_in(5)) {
      say({"Mary", "John", "Anna"});
      return kSingular;
    }
    const Number number = one_in(3) ? kPlural : kSingular;
    if (one_in(2)) say({"the", "my", "some"});
    else if (number == kSingular) say({"a", "every", "this"});
    else say({"these", "many", "few"});
    while (one_in(3)) say({"big", "black", "old", "little", "clever", "tired"});
    if (number == kSingular) say({"man", "dog", "cat", "park", "hill", "telescope", "snake", "house", "girl", "river"});
    else say({"men", "dogs", "cats", "parks", "hills", "telescopes", "snakes", "houses", "girls", "rivers"});
    if (depth > 0 && !one_in(3)) prepositional_phrase(depth - 1);
    if (depth > 0 && one_in(3)) {
      words_.push_back("who");
      verb_phrase(depth - 1, number);
    }
    return number;
  }

  void prepositional_phrase(unsigned depth) {
    say({"with", "in", "on", "near", "under", "behind"});
    noun_phrase(depth);
  }

  void verb_phrase(unsigned depth, Number number) {
    if (depth > 0 && one_in(3)) {
      say({"said", "thought", "knew"});
      words_.push_back("that");
      sentence(depth - 1);
      return;
    }
    if (one_in(4)) {
      say({"ran", "slept", "sang", "waited"});
    } else {
      if (one_in(2)) say({"saw", "chased", "liked", "found"});
      else if (number == kSingular) say({"sees", "chases", "likes", "finds"});
      else say({"see", "chase", "like", "find"});
      noun_phrase(depth);
    }
    while (depth > 0 && !one_in(3)) prepositional_phrase(depth - 1);
    if (one_in(4)) say({"yesterday", "here", "again"});
  }

  bench::Random random_;
  std::vector<const char*> words_;
};

}  // namespace links

#endif  // FREEWAY_BENCH_STREAMFLOW_ENGLISH_H
