// SPDX-License-Identifier: MIT
//
// link_grammar.h: words and how they may be linked, after Sleator and Temperley, "Parsing English with a link grammar"
// (CMU-CS-91-196, 1991), the theory behind 197.parser.
//
// A connector such as Ss- has a label (S), a subscript (s; may be missing) and a direction (- to the left). A
// dictionary gives each word an expression: connectors joined by & and or, {} for what may be absent, @ for what may be
// repeated; nearer links stand first. From an expression come disjuncts: one way each to use the word, as a list of
// connectors to the left and one to the right, the farthest first.
//
// All of it is made of small blocks, lists above all, that live as long as a word or a sentence is worked on.
#ifndef FREEWAY_BENCH_STREAMFLOW_LINK_GRAMMAR_H
#define FREEWAY_BENCH_STREAMFLOW_LINK_GRAMMAR_H

#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace links {

struct Operand;

// A node of an expression: a connector, or all of (kAnd) or one of (kOr) its operands.
struct Expression {
  enum Kind : unsigned char { kConnector, kAnd, kOr };
  Kind kind;
  char label, subscript;  // of a connector; subscript 0: fits any
  char direction;         // '+' or '-'
  bool repeated;
  Operand* operands;
};
struct Operand {
  Operand* next;
  Expression* expression;
};
static_assert(sizeof(Expression) == 16 && sizeof(Operand) == 16);

// 12 bytes, so that sizes are not twice those of the paper's 32-bit program.
struct [[gnu::packed]] Connector {
  Connector* next;  // the next nearer one
  char label, subscript;
  std::uint16_t number : 15;  // in the sentence, from 1
  std::uint16_t repeated : 1;
};
static_assert(sizeof(Connector) == 12);
inline constexpr std::uint32_t kMostConnectors = (1u << 15) - 1;  // in a sentence

struct Disjunct {
  Disjunct* next;
  Connector* left;
  Connector* right;
};

inline bool fit(const Connector* a, const Connector* b) {
  return a->label == b->label && (a->subscript == b->subscript || a->subscript == 0 || b->subscript == 0);
}

// Makes and frees the pieces, each a block of its own.
template <class Blocks> class Pieces {
 public:
  template <class T> static T* make(T value) { return new (Blocks::allocate(sizeof(T))) T(value); }
  template <class T> static void free_list(T* list) {
    while (list != nullptr) {
      T* next = list->next;
      Blocks::free(list);
      list = next;
    }
  }

  static Expression* copy(const Expression* from) {
    Expression* made = make(*from);
    Operand** link = &made->operands;
    for (const Operand* operand = from->operands; operand != nullptr; operand = operand->next) {
      *link = make(Operand{nullptr, copy(operand->expression)});
      link = &(*link)->next;
    }
    return made;
  }
  static void free_expression(Expression* expression) {
    for (Operand* operand = expression->operands; operand != nullptr;) {
      Operand* next = operand->next;
      free_expression(operand->expression);
      Blocks::free(operand);
      operand = next;
    }
    Blocks::free(expression);
  }
  static void free_disjunct(Disjunct* disjunct) {
    free_list(disjunct->left);
    free_list(disjunct->right);
    Blocks::free(disjunct);
  }

  // All disjuncts of an expression, in front of `rest`. Numbers connectors on from `number`.
  static Disjunct* disjuncts(const Expression* expression, std::uint32_t& number, Disjunct* rest) {
    Clause* clauses = clauses_of(expression);
    for (const Clause* clause = clauses; clause != nullptr; clause = clause->next) {
      rest = make(Disjunct{rest, nullptr, nullptr});
      for (const Term* term = clause->terms; term != nullptr; term = term->next) {
        const Expression& connector = *term->connector;
        Connector*& list = connector.direction == '-' ? rest->left : rest->right;
        list = make(Connector{list, connector.label, connector.subscript, static_cast<std::uint16_t>(++number & 0x7fff),
                              connector.repeated});
      }
    }
    free_clauses(clauses);
    return rest;
  }

 private:
  // One way to choose among an expression's alternatives: the connectors that remain, in written order.
  struct Term {
    Term* next;
    const Expression* connector;
  };
  struct Clause {
    Clause* next;
    Term* terms;
  };

  static Term* copy_terms(const Term* from, Term* rest) {
    Term* first = rest;
    Term** link = &first;
    for (; from != nullptr; from = from->next) {
      *link = make(Term{rest, from->connector});
      link = &(*link)->next;
    }
    return first;
  }
  static void free_clauses(Clause* clauses) {
    for (Clause* clause = clauses; clause != nullptr; clause = clause->next) free_list(clause->terms);
    free_list(clauses);
  }

  static Clause* clauses_of(const Expression* expression) {
    switch (expression->kind) {
      case Expression::kConnector: return make(Clause{nullptr, make(Term{nullptr, expression})});
      case Expression::kOr: {
        Clause* all = nullptr;
        Clause** end = &all;
        for (const Operand* operand = expression->operands; operand != nullptr; operand = operand->next) {
          *end = clauses_of(operand->expression);
          while (*end != nullptr) end = &(*end)->next;
        }
        return all;
      }
      case Expression::kAnd: break;
    }
    Clause* all = make(Clause{nullptr, nullptr});
    for (const Operand* operand = expression->operands; operand != nullptr; operand = operand->next) {
      Clause* more = clauses_of(operand->expression);
      Clause* product = multiply(all, more);
      free_clauses(all);
      free_clauses(more);
      all = product;
    }
    return all;
  }
  // Each of `first` followed by each of `second`.
  static Clause* multiply(const Clause* first, const Clause* second) {
    Clause* product = nullptr;
    for (; first != nullptr; first = first->next)
      for (const Clause* other = second; other != nullptr; other = other->next)
        product = make(Clause{product, copy_terms(first->terms, copy_terms(other->terms, nullptr))});
    return product;
  }
};

// Words with their expressions, read from lines "word word: expression;".
template <class Blocks> class Dictionary {
 public:
  explicit Dictionary(const char* text) : next_(text) {
    while (skip_blanks(), *next_ != '\0') entry();
  }
  ~Dictionary() {
    for (Expression* expression : owned_) Pieces<Blocks>::free_expression(expression);
  }
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  // Null for an unknown word.
  const Expression* find(const std::string& word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : found->second;
  }

 private:
  void entry() {
    std::vector<std::string> words;
    for (; !accept(":"); skip_blanks()) {
      std::string word;
      while (std::isalpha(static_cast<unsigned char>(*next_))) word += *next_++;
      if (word.empty()) fail("a word");
      words.push_back(word);
    }
    Expression* expression = alternatives();
    if (!accept(";")) fail("';'");
    owned_.push_back(expression);
    for (const std::string& word : words) words_[word] = expression;
  }

  Expression* alternatives() {
    return joined(Expression::kOr, "or", [this] { return sequence(); });
  }
  Expression* sequence() {
    return joined(Expression::kAnd, "&", [this] { return factor(); });
  }

  // One or more operands with `sign` between them.
  template <class Part> Expression* joined(Expression::Kind kind, const char* sign, Part part) {
    Expression* first = part();
    if (!accept(sign)) return first;
    Expression* all = node(kind, Pieces<Blocks>::make(Operand{nullptr, first}));
    Operand* last = all->operands;
    do { last = last->next = Pieces<Blocks>::make(Operand{nullptr, part()}); } while (accept(sign));
    return all;
  }

  Expression* factor() {
    if (accept("(")) {
      if (accept(")")) return node(Expression::kAnd, nullptr);  // nothing at all
      Expression* inner = alternatives();
      if (!accept(")")) fail("')'");
      return inner;
    }
    if (accept("{")) {
      auto* absent = Pieces<Blocks>::make(Operand{nullptr, node(Expression::kAnd, nullptr)});
      Expression* inner = node(Expression::kOr, Pieces<Blocks>::make(Operand{absent, alternatives()}));
      if (!accept("}")) fail("'}'");
      return inner;
    }
    Expression connector{Expression::kConnector, 0, 0, 0, accept("@"), nullptr};
    if (!std::isupper(static_cast<unsigned char>(*next_))) fail("a connector");
    connector.label = *next_++;
    if (std::islower(static_cast<unsigned char>(*next_))) connector.subscript = *next_++;
    if (*next_ != '+' && *next_ != '-') fail("'+' or '-'");
    connector.direction = *next_++;
    return Pieces<Blocks>::make(connector);
  }

  static Expression* node(Expression::Kind kind, Operand* operands) {
    return Pieces<Blocks>::make(Expression{kind, 0, 0, 0, false, operands});
  }

  bool accept(const char* sign) {
    skip_blanks();
    if (std::strncmp(next_, sign, std::strlen(sign)) != 0) return false;
    next_ += std::strlen(sign);
    skip_blanks();
    return true;
  }
  void skip_blanks() {
    while (std::isspace(static_cast<unsigned char>(*next_))) ++next_;
  }
  [[noreturn]] void fail(const char* wanted) const {
    std::fprintf(stderr, "dictionary: %s is wanted before '%.20s'\n", wanted, next_);
    std::exit(2);
  }

  const char* next_;
  std::unordered_map<std::string, const Expression*> words_;
  std::vector<Expression*> owned_;
};

}  // namespace links

#endif  // FREEWAY_BENCH_STREAMFLOW_LINK_GRAMMAR_H
