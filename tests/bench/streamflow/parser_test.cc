// SPDX-License-Identifier: MIT
//
// The link parser: sentences whose linkages one can count by hand, and random grammars against a count that tries all.
#include <gtest/gtest.h>

#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "streamflow/english.h"
#include "streamflow/link_parser.h"
#include "support/profile.h"

namespace {

using bench::Malloc;
using links::Connector;
using links::Disjunct;

std::uint64_t linkages(links::Parser<Malloc>& parser, const std::string& sentence) {
  std::istringstream stream(sentence);
  const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  return parser.count_linkages(pointers);
}

TEST(LinkParser, CountsWhatOneCanCountByHand) {
  const links::Dictionary<Malloc> dictionary(links::kEnglish);
  links::Parser<Malloc> parser(dictionary);
  const auto count = [&](const char* sentence) { return linkages(parser, sentence); };
  EXPECT_EQ(count("the cat chased a snake"), 1u);
  EXPECT_EQ(count("Mary ran"), 1u);
  EXPECT_EQ(count("the big black dog often chased a cat yesterday"), 1u);
  EXPECT_EQ(count("the man who saw the dog ran"), 1u);
  EXPECT_EQ(count("Mary said that the cat ran"), 1u);
  // A prepositional phrase belongs to the verb or to any noun phrase to its left that it can still reach: the Catalan
  // numbers.
  EXPECT_EQ(count("the man saw the dog in the park"), 2u);
  EXPECT_EQ(count("the man saw the dog in the park with the telescope"), 5u);
  EXPECT_EQ(count("the man saw the dog in the park with the telescope on the hill"), 14u);
  EXPECT_EQ(count("the man saw the dog in the park with the telescope on the hill near the river"), 42u);
}

TEST(LinkParser, RefusesWhatIsWrong) {
  const links::Dictionary<Malloc> dictionary(links::kEnglish);
  links::Parser<Malloc> parser(dictionary);
  for (const char* wrong : {"the cat chased snake", "a cats ran", "the cats sees Mary", "Mary said that the cat",
                            "cat the chased a snake", "the", "", "the unicorn ran", "ran ran"})
    EXPECT_EQ(linkages(parser, wrong), 0u) << wrong;
  std::string endless = "Mary ran";
  for (int i = 0; i < 200; ++i) endless += " in the park";
  EXPECT_EQ(linkages(parser, endless), 0u);
  EXPECT_EQ(linkages(parser, "Mary ran"), 1u);  // and is none the worse for it
}

TEST(LinkParser, FreesAllThatItAllocates) {
  {
    const links::Dictionary<bench::Counted> dictionary(links::kEnglish);
    links::Parser<bench::Counted> parser(dictionary);
    links::SentenceSource source(9);
    for (int i = 0; i < 50; ++i) parser.count_linkages(source.next());
    parser.count_linkages({"the", "unicorn", "ran"});
  }
  const bench::profile::Counts counts = bench::profile::total();
  EXPECT_GT(counts.small, 10'000u);
  EXPECT_EQ(counts.frees, counts.small + counts.large);
}

TEST(Sentences, AreMostlyAccepted) {
  const links::Dictionary<Malloc> dictionary(links::kEnglish);
  links::Parser<Malloc> parser(dictionary);
  links::SentenceSource source(1);
  int accepted = 0;
  for (int i = 0; i < 200; ++i) accepted += parser.count_linkages(source.next()) != 0;
  EXPECT_GT(accepted, 160);  // 7 of 8 are not tampered with
  EXPECT_LT(accepted, 200);
}

// --- All ways, one by one --------------------------------------------------------------------------------------------

struct Open {
  std::size_t word;
  const Connector* connector;
};

// With one disjunct chosen for each word there is at most one linkage: since links do not cross, a word's connectors to
// the left meet the open ones to their left in the order of a stack.
bool links_up(const std::vector<const Disjunct*>& chosen) {
  std::vector<Open> open;
  std::vector<std::size_t> group(chosen.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  for (std::size_t word = 0; word < chosen.size(); ++word) {
    std::vector<const Connector*> nearest_first;
    for (const Connector* c = chosen[word]->left; c != nullptr; c = c->next)
      nearest_first.insert(nearest_first.begin(), c);
    std::size_t last = chosen.size();
    for (const Connector* connector : nearest_first) {
      if (open.empty() || !links::fit(open.back().connector, connector)) return false;
      if (open.back().word == last) return false;  // two links between the same words
      last = open.back().word;
      const std::size_t from = group[last], to = group[word];
      for (std::size_t& one : group)
        if (one == from) one = to;
      open.pop_back();
    }
    for (const Connector* c = chosen[word]->right; c != nullptr; c = c->next) open.push_back({word, c});
  }
  for (const std::size_t one : group)
    if (one != group[0]) return false;
  return open.empty();
}

std::uint64_t try_all(const std::vector<Disjunct*>& choices, std::vector<const Disjunct*>& chosen) {
  if (chosen.size() == choices.size()) return links_up(chosen) ? 1 : 0;
  std::uint64_t total = 0;
  for (const Disjunct* disjunct = choices[chosen.size()]; disjunct != nullptr; disjunct = disjunct->next) {
    chosen.push_back(disjunct);
    total += try_all(choices, chosen);
    chosen.pop_back();
  }
  return total;
}

// Words a to f, each with a few alternatives of up to three connectors with labels A and B, now and then with
// subscripts. The farther to the right in the alphabet, the more connectors point to the left.
std::string random_grammar(bench::Random& random) {
  std::string text;
  for (const char* word : {"a", "b", "c", "d", "e", "f"}) {
    text += std::string(word) + ":";
    for (std::uint64_t alternative = random.between(1, 3); alternative > 0; --alternative) {
      for (std::uint64_t connector = random.between(1, 3); connector > 0; --connector) {
        const bool optional = random.below(2) == 0, leftwards = random.below(7) <= static_cast<unsigned>(*word - 'a');
        const char* subscript[] = {"", "", "", "", "s", "p"};
        text += std::string(optional ? "{" : "") + (random.below(3) ? "A" : "B") + subscript[random.below(6)] +
                (leftwards ? "-" : "+") + (optional ? "}" : "") + (connector > 1 ? " & " : "");
      }
      text += alternative > 1 ? " or " : "; ";
    }
  }
  return text;
}

TEST(LinkParser, AgreesWithTryingAllOnRandomGrammars) {
  bench::Random random(7);
  int with_linkages = 0, with_several = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string text = random_grammar(random);
    const links::Dictionary<Malloc> dictionary(text.c_str());
    links::Parser<Malloc> parser(dictionary);
    for (int s = 0; s < 5; ++s) {
      std::string sentence;
      std::vector<Disjunct*> choices;
      std::uint32_t number = 0;
      for (std::uint64_t length = random.between(2, 6); length > 0; --length) {
        const std::uint64_t low = 6 - std::min<std::uint64_t>(length, 6);  // roughly in alphabetical order
        const std::string word(1, static_cast<char>('a' + random.between(low / 2, 5)));
        sentence += word + " ";
        choices.push_back(links::Pieces<Malloc>::disjuncts(dictionary.find(word), number, nullptr));
      }
      std::vector<const Disjunct*> chosen;
      const std::uint64_t expected = try_all(choices, chosen);
      ASSERT_EQ(linkages(parser, sentence), expected) << text << "\n" << sentence;
      with_linkages += expected != 0;
      with_several += expected > 1;
      for (Disjunct* list : choices)
        while (list != nullptr) {
          Disjunct* next = list->next;
          links::Pieces<Malloc>::free_disjunct(list);
          list = next;
        }
    }
  }
  // Else the grammars are too poor to test anything.
  EXPECT_GT(with_linkages, 200);
  EXPECT_GT(with_several, 100);
}

// @X stands for one, two, … times X.
TEST(LinkParser, RepeatedConnectorsMeanOneOrMore) {
  const links::Dictionary<Malloc> dictionary("v: @X+; w: Y+ & {@X+}; x: X-; u: Y-;");
  links::Parser<Malloc> parser(dictionary);
  EXPECT_EQ(linkages(parser, "v"), 0u);
  EXPECT_EQ(linkages(parser, "v x"), 1u);
  EXPECT_EQ(linkages(parser, "v x x x"), 1u);
  EXPECT_EQ(linkages(parser, "w u"), 1u);
  EXPECT_EQ(linkages(parser, "w u x x"), 1u);
  EXPECT_EQ(linkages(parser, "w x u"), 0u);  // nearer links come first
  // v with m and with w, which is with n, too.
  const links::Dictionary<Malloc> both("v: @X+; m: X-; n: X+; w: @X-;");
  links::Parser<Malloc> other(both);
  EXPECT_EQ(linkages(other, "v m n w"), 1u);
  EXPECT_EQ(linkages(other, "v m n n w"), 1u);
}

}  // namespace
