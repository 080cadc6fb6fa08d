// SPDX-License-Identifier: MIT
//
// compile_me: a C++20 file that is work for a compiler (templates, ranges, coroutines, regular expressions) and, when
// it runs, for an allocator. Prints the same every time.
#include <algorithm>
#include <array>
#include <concepts>
#include <coroutine>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace {

// A lazy sequence: each frame is a malloc'ed block.
class Numbers {
 public:
  struct promise_type {
    long current = 0;
    Numbers get_return_object() { return Numbers(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(long value) noexcept {
      current = value;
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() { std::terminate(); }
  };
  using Handle = std::coroutine_handle<promise_type>;

  explicit Numbers(Handle handle) : handle_(handle) {}
  Numbers(Numbers&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Numbers() {
    if (handle_) handle_.destroy();
  }
  bool next(long& value) {
    handle_.resume();
    if (handle_.done()) return false;
    value = handle_.promise().current;
    return true;
  }

 private:
  Handle handle_;
};

Numbers squares(long until) {
  for (long i = 0; i < until; ++i) co_yield i* i;
}

template <std::integral T, T... I> constexpr auto table(std::integer_sequence<T, I...>) {
  return std::array<T, sizeof...(I)>{((I * 2654435761u) % 9973)...};
}
constexpr auto kTable = table(std::make_integer_sequence<unsigned, 2000>());

template <int Depth> struct Nest {
  using type = std::tuple<typename Nest<Depth - 1>::type, std::map<int, typename Nest<Depth - 1>::type>>;
};
template <> struct Nest<0> {
  using type = std::variant<int, std::string, std::vector<double>>;
};

struct Add {
  long operator()(int i) const { return i; }
  long operator()(const std::string& s) const { return static_cast<long>(s.size()); }
  long operator()(const std::vector<double>& v) const { return static_cast<long>(v.size()); }
};

std::map<std::string, int> count_words(const std::string& text) {
  static const std::regex word("([a-z]+)([0-9]*)");
  std::map<std::string, int> counts;
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) ++counts[(*it)[1].str()];
  return counts;
}

long churn(unsigned seed) {
  std::unordered_map<unsigned, std::unique_ptr<std::string>> held;
  long sum = 0;
  for (unsigned i = 0; i < 40000; ++i) {
    seed = seed * 1664525u + 1013904223u;
    auto& slot = held[seed % 3000];
    if (slot) sum += static_cast<long>(slot->size());
    slot = std::make_unique<std::string>(seed % 300, 'x');
  }
  return sum;
}

}  // namespace

int main() {
  typename Nest<5>::type nested;
  std::get<1>(nested)[3] = {};
  long total = 0, value = 0;
  for (auto numbers = squares(1000); numbers.next(value);) total += value;
  std::cout << "squares " << total << '\n';

  // No views here: Debian's clang 14 cannot compile those of GCC 12's library.
  std::vector<unsigned> sorted;
  std::ranges::copy_if(kTable, std::back_inserter(sorted), [](unsigned x) { return x % 2 == 1; });
  std::ranges::sort(sorted, std::greater<>{});
  std::cout << "odd " << sorted.size() << ' ' << sorted.front() << '\n';

  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += "word" + std::string(1, static_cast<char>('a' + i % 7)) + std::to_string(i) + " ";
  for (const auto& [word, count] : count_words(text)) std::cout << word << ' ' << count << '\n';

  std::vector<std::variant<int, std::string, std::vector<double>>> mixed{7, std::string("seven"),
                                                                         std::vector<double>(9)};
  for (const auto& one : mixed) std::cout << std::visit(Add{}, one) << '\n';

  std::array<long, 4> sums{};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < sums.size(); ++t) threads.emplace_back([&sums, t] { sums[t] = churn(t); });
  for (auto& thread : threads) thread.join();
  for (long sum : sums) std::cout << "churn " << sum << '\n';
}
