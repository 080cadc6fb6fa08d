// SPDX-License-Identifier: MIT
//
// link_parser.h: in how many ways a sentence can be linked: Sleator and Temperley's count by dynamic programming.
//
// count(L, R, l, r) is the number of ways to link the words between L and R such that L's connectors from l on and R's
// from r on are used up: some word W between takes l, or r, or both; what remains lies between L and W and between W
// and R. For each such question the parser lists the disjuncts of W that could do it, in blocks of 12 bytes that it
// frees when the question is answered: that, like a stack, is what most of 197.parser's allocations are.
#ifndef FREEWAY_BENCH_STREAMFLOW_LINK_PARSER_H
#define FREEWAY_BENCH_STREAMFLOW_LINK_PARSER_H

#include "streamflow/link_grammar.h"
#include "streamflow/mapped_vector.h"

namespace links {

inline constexpr std::size_t kLongestSentence = 120;  // words

template <class Blocks> class Parser {
 public:
  explicit Parser(const Dictionary<Blocks>& dictionary) : dictionary_(dictionary) {}

  // The number of linkages, modulo 2^64; 0 too if a word is unknown or the sentence is too long.
  std::uint64_t count_linkages(const std::vector<const char*>& sentence) {
    if (sentence.empty() || sentence.size() > kLongestSentence || !read(sentence)) return 0;
    prune();
    make_tables();
    std::uint64_t total = 0;
    const auto end = static_cast<unsigned>(sentence.size());
    // prune left none that links the first word with one to its left.
    for (const Disjunct* first = words_[0].disjuncts; first != nullptr; first = first->next)
      total += count(0, end, first->right, nullptr);
    free_tables();
    forget();
    return total;
  }

 private:
  using Make = Pieces<Blocks>;

  struct Word {
    char* text;
    Disjunct* disjuncts;
  };

  // An element of a list of disjuncts: 12 bytes, the number instead of a second pointer.
  struct [[gnu::packed]] Match {
    Match* next;
    std::uint32_t disjunct;
  };
  static_assert(sizeof(Match) == 12);

  // For one word, the disjuncts by the label of their farthest connector on either side.
  struct Matches {
    Match* left[26];
    Match* right[26];
  };

  // An answer of count.
  struct Answer {
    Answer* next;
    std::uint64_t count;
    std::uint16_t left, right;  // numbers of the connectors, 0 for none
    std::uint8_t from, to;      // words
  };
  static_assert(sizeof(Answer) == 24);
  static constexpr std::size_t kAnswerLists = 1024;

  static std::uint16_t number(const Connector* connector) { return connector == nullptr ? 0 : connector->number; }

  // --- The sentence: words, their disjuncts, and the tables to find them
  // ----------------------------------------------

  // False (and nothing is kept) if a word is unknown or there are too many connectors.
  bool read(const std::vector<const char*>& sentence) {
    words_.clear();
    std::uint32_t connectors = 0;
    for (const char* text : sentence) {
      const Expression* expression = dictionary_.find(text);
      if (expression == nullptr) {
        forget();
        return false;
      }
      const std::size_t length = std::strlen(text) + 1;
      Word word{static_cast<char*>(Blocks::allocate(length)), nullptr};
      std::memcpy(word.text, text, length);
      // Working on a copy, as 197.parser does, which prunes expressions too.
      Expression* own = Make::copy(expression);
      word.disjuncts = Make::disjuncts(own, connectors, nullptr);
      Make::free_expression(own);
      words_.push_back(word);
      if (connectors > kMostConnectors) {
        forget();
        return false;
      }
    }
    return true;
  }
  void forget() {
    for (Word& word : words_) {
      while (Disjunct* disjunct = word.disjuncts) {
        word.disjuncts = disjunct->next;
        Make::free_disjunct(disjunct);
      }
      Blocks::free(word.text);
    }
    words_.clear();
  }

  // Drops disjuncts with a connector that no word on its side could meet, again and again, for each one that goes may
  // take others with it.
  void prune() {
    while (sweep(true) + sweep(false) != 0) {}
  }
  std::size_t sweep(bool rightwards) {
    bool seen[26] = {};
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      Word& word = words_[rightwards ? i : words_.size() - 1 - i];
      for (Disjunct** link = &word.disjuncts; *link != nullptr;) {
        Disjunct* disjunct = *link;
        if (all_seen(rightwards ? disjunct->left : disjunct->right, seen)) {
          link = &disjunct->next;
          continue;
        }
        *link = disjunct->next;
        Make::free_disjunct(disjunct);
        ++dropped;
      }
      for (const Disjunct* disjunct = word.disjuncts; disjunct != nullptr; disjunct = disjunct->next)
        for (const Connector* c = rightwards ? disjunct->right : disjunct->left; c != nullptr; c = c->next)
          seen[c->label - 'A'] = true;
    }
    return dropped;
  }
  static bool all_seen(const Connector* list, const bool* seen) {
    for (; list != nullptr; list = list->next)
      if (!seen[list->label - 'A']) return false;
    return true;
  }

  void make_tables() {
    const std::size_t answers = kAnswerLists * sizeof(Answer*), matches = words_.size() * sizeof(Matches);
    answers_ = static_cast<Answer**>(Blocks::allocate(answers + matches));
    std::memset(answers_, 0, answers + matches);
    matches_ = reinterpret_cast<Matches*>(answers_ + kAnswerLists);
    disjuncts_.clear();
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (Disjunct* disjunct = words_[i].disjuncts; disjunct != nullptr; disjunct = disjunct->next) {
        if (disjunct->left != nullptr) put(matches_[i].left[disjunct->left->label - 'A'], disjuncts_.size());
        if (disjunct->right != nullptr) put(matches_[i].right[disjunct->right->label - 'A'], disjuncts_.size());
        disjuncts_.push(disjunct);
      }
    }
  }
  void free_tables() {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (Match* list : matches_[i].left) Make::free_list(list);
      for (Match* list : matches_[i].right) Make::free_list(list);
    }
    for (std::size_t i = 0; i < kAnswerLists; ++i) Make::free_list(answers_[i]);
    Blocks::free(answers_);
  }
  static void put(Match*& list, std::size_t disjunct) {
    list = Make::make(Match{list, static_cast<std::uint32_t>(disjunct)});
  }

  // --- The count
  // ------------------------------------------------------------------------------------------------------

  std::uint64_t count(unsigned from, unsigned to, const Connector* l, const Connector* r) {
    if (to == from + 1) return l == nullptr && r == nullptr ? 1 : 0;
    Answer*& list = answer_list(from, to, l, r);
    for (const Answer* answer = list; answer != nullptr; answer = answer->next)
      if (answer->from == from && answer->to == to && answer->left == number(l) && answer->right == number(r))
        return answer->count;
    std::uint64_t total = 0;
    for (unsigned word = from + 1; word < to; ++word) total += count_at(from, word, to, l, r);
    list = Make::make(
        Answer{list, total, number(l), number(r), static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to)});
    return total;
  }

  // Those in which `word` takes l, r or both. A region with neither must be held together by somebody: it has no
  // answer.
  std::uint64_t count_at(unsigned from, unsigned word, unsigned to, const Connector* l, const Connector* r) {
    std::uint64_t total = 0;
    Match* matches = matches_of(word, l, r);
    for (const Match* match = matches; match != nullptr; match = match->next) {
      const Disjunct& d = *disjuncts_[match->disjunct];
      const bool takes_l = l != nullptr && d.left != nullptr && fit(l, d.left);
      const bool takes_r = r != nullptr && d.right != nullptr && fit(d.right, r);
      const std::uint64_t left = takes_l ? linked(from, word, l, d.left) : 0;
      const std::uint64_t right = takes_r ? linked(word, to, d.right, r) : 0;
      if (left != 0 && right != 0) total += left * right;
      if (left != 0) total += left * count(word, to, d.right, r);
      if (right != 0 && l == nullptr) total += right * count(from, word, nullptr, d.left);
    }
    Make::free_list(matches);
    return total;
  }

  // What lies between two words that are linked by l and r; a repeated connector may have further, nearer links.
  std::uint64_t linked(unsigned from, unsigned to, const Connector* l, const Connector* r) {
    std::uint64_t total = count(from, to, l->next, r->next);
    if (l->repeated) total += count(from, to, l, r->next);
    if (r->repeated) total += count(from, to, l->next, r);
    if (l->repeated && r->repeated) total += count(from, to, l, r);
    return total;
  }

  // The disjuncts of `word` whose farthest connector fits l or r; to be freed by the caller.
  Match* matches_of(unsigned word, const Connector* l, const Connector* r) {
    Match* found = nullptr;
    if (l != nullptr)
      for (const Match* match = matches_[word].left[l->label - 'A']; match != nullptr; match = match->next)
        if (fit(l, disjuncts_[match->disjunct]->left)) put(found, match->disjunct);
    if (r != nullptr) {
      for (const Match* match = matches_[word].right[r->label - 'A']; match != nullptr; match = match->next) {
        const Disjunct* d = disjuncts_[match->disjunct];
        const bool listed = l != nullptr && d->left != nullptr && fit(l, d->left);
        if (!listed && fit(d->right, r)) put(found, match->disjunct);
      }
    }
    return found;
  }

  Answer*& answer_list(unsigned from, unsigned to, const Connector* l, const Connector* r) {
    std::uint64_t hash = (std::uint64_t{number(l)} << 32 | number(r)) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ (from << 8 | to)) * 0x9E3779B97F4A7C15u;
    return answers_[hash >> 54];
  }
  static_assert(kAnswerLists == 1u << (64 - 54));

  const Dictionary<Blocks>& dictionary_;
  std::vector<Word> words_;
  bench::MappedVector<Disjunct*> disjuncts_;  // by number
  Answer** answers_ = nullptr;                // lists by hash; with matches_ the sentence's one large block
  Matches* matches_ = nullptr;                // by word
};

}  // namespace links

#endif  // FREEWAY_BENCH_STREAMFLOW_LINK_PARSER_H
