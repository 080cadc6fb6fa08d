// SPDX-License-Identifier: MIT
//
// templates.cc: work for a compiler: types computed by types, deep recursion of templates, containers and algorithms of
// many element types, constant evaluation, lambdas that are passed around. It is never run.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// --- Lists of types: made, sorted, filtered by the compiler ----------------------------------------------------------

template <int N> struct Number {
  static constexpr int value = N;
  std::array<char, N % 61 + 1> bytes;
};

template <class... T> struct List {
  static constexpr std::size_t size = sizeof...(T);
};

template <class A, class B> struct Join;
template <class... A, class... B> struct Join<List<A...>, List<B...>> {
  using Type = List<A..., B...>;
};

template <class L, template <class> class Keep> struct Filter;
template <template <class> class Keep> struct Filter<List<>, Keep> {
  using Type = List<>;
};
template <class Head, class... Tail, template <class> class Keep> struct Filter<List<Head, Tail...>, Keep> {
  using Rest = typename Filter<List<Tail...>, Keep>::Type;
  using Type = std::conditional_t<Keep<Head>::value, typename Join<List<Head>, Rest>::Type, Rest>;
};

template <class L> struct Sort;
template <> struct Sort<List<>> {
  using Type = List<>;
};
template <class Pivot, class... Tail> struct Sort<List<Pivot, Tail...>> {
  template <class T> using Below = std::bool_constant<(T::value < Pivot::value)>;
  template <class T> using NotBelow = std::bool_constant<(T::value >= Pivot::value)>;
  using Low = typename Sort<typename Filter<List<Tail...>, Below>::Type>::Type;
  using High = typename Sort<typename Filter<List<Tail...>, NotBelow>::Type>::Type;
  using Type = typename Join<typename Join<Low, List<Pivot>>::Type, High>::Type;
};

template <std::size_t... I> List<Number<static_cast<int>(I * 7919 % 1009)>...> shuffled(std::index_sequence<I...>);
using Sorted = Sort<decltype(shuffled(std::make_index_sequence<70>()))>::Type;
static_assert(Sorted::size == 70);

// --- Containers of many types ----------------------------------------------------------------------------------------

template <class T> struct Shelf {
  std::vector<std::unique_ptr<T>> items;
  std::map<int, std::vector<T>> by_number;
  std::unordered_map<std::string, std::optional<T>> by_name;

  template <class F> auto collect(F&& f) const {
    std::vector<std::invoke_result_t<F, const T&>> out;
    for (const auto& [number, some] : by_number) std::transform(some.begin(), some.end(), std::back_inserter(out), f);
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return b < a; });
    return out;
  }
};

template <int I> int use_shelf(int seed) {
  Shelf<Number<I>> shelf;
  for (int i = 0; i < seed; ++i) {
    shelf.items.push_back(std::make_unique<Number<I>>());
    shelf.by_number[i % I].emplace_back();
    shelf.by_name.emplace(std::to_string(i), Number<I>{});
  }
  const auto sizes =
      shelf.collect([seed](const Number<I>& n) { return std::pair(n.bytes.size() + seed, std::string("x")); });
  return static_cast<int>(sizes.size() + shelf.by_name.size());
}

template <int... I> int use_all(int seed, std::integer_sequence<int, I...>) {
  return (0 + ... + use_shelf<I + 2>(seed));
}

int shelves(int seed) { return use_all(seed, std::make_integer_sequence<int, 3>()); }

// --- Expressions as variants -----------------------------------------------------------------------------------------

struct Node;
using Tree = std::variant<int, std::string, std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>>;
struct Node {
  Tree left, right;
  std::function<int(int, int)> apply;
};

template <class... F> struct Overloaded : F... {
  using F::operator()...;
};
template <class... F> Overloaded(F...) -> Overloaded<F...>;

int evaluate(const Tree& tree);
int value(const Node& node) { return node.apply(evaluate(node.left), evaluate(node.right)); }

int evaluate(const Tree& tree) {
  return std::visit(Overloaded{[](int n) { return n; }, [](const std::string& s) { return static_cast<int>(s.size()); },
                               [](const std::shared_ptr<Node>& n) { return value(*n); },
                               [](const std::vector<std::shared_ptr<Node>>& all) {
                                 return std::accumulate(all.begin(), all.end(), 0,
                                                        [](int sum, const auto& n) { return sum + value(*n); });
                               }},
                    tree);
}

// --- Constant evaluation ---------------------------------------------------------------------------------------------

constexpr auto primes = [] {
  std::array<int, 600> found{};
  int count = 0;
  for (int n = 2; count < 600; ++n) {
    bool prime = true;
    for (int i = 0; i < count && found[i] * found[i] <= n; ++i) prime = prime && n % found[i] != 0;
    if (prime) found[count++] = n;
  }
  return found;
}();
static_assert(primes.back() == 4409);

// --- Tuples of many elements -----------------------------------------------------------------------------------------

template <std::size_t... I> auto rows(std::index_sequence<I...>) {
  return std::tuple(std::pair(primes[I], std::array<std::string, I % 5 + 1>{})...);
}

std::size_t table() {
  return std::apply([](const auto&... row) { return (row.second.size() + ...); }, rows(std::make_index_sequence<40>()));
}
