// SPDX-License-Identifier: MIT
// rust_names.cc: one function for each rule of RFC 2603's grammar, which reads what the rule describes and writes it.
#include "rust_names.h"

#include <algorithm>
#include <cstdint>

#include "punycode.h"

namespace freeway_profile {
namespace {

// A symbol may be anybody's: references back can make a long name of a short symbol.
constexpr std::size_t kMostBytes = 8192;
constexpr int kDeepest = 200;

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_lower(char c) { return 'a' <= c && c <= 'z'; }
bool is_upper(char c) { return 'A' <= c && c <= 'Z'; }

// The value of a digit in bases up to 62; 62 if it is none.
unsigned digit_value(char c) {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  if (is_lower(c)) return static_cast<unsigned>(c - 'a') + 10;
  return is_upper(c) ? static_cast<unsigned>(c - 'A') + 36 : 62;
}

std::string_view basic_type(char tag) {
  constexpr std::string_view kTypes[] = {"i8", "bool", "char", "f64", "str", "f32", "", "u8", "isize", "usize", "", "i32", "u32",
                                         "i128", "u128", "_", "", "", "i16", "u16", "()", "...", "", "i64", "u64", "!"};
  return is_lower(tag) ? kTypes[tag - 'a'] : "";
}

class Reader {
 public:
  explicit Reader(std::string_view symbol) : text_(symbol) {}

  std::optional<std::string> name() {
    path(true);
    if (is_upper(peek())) unseen([this] { path(true); });  // the crate that made this copy
    const bool whole = at_ == text_.size() || peek() == '.' || peek() == '$';
    return ok_ && whole ? std::optional(written_) : std::nullopt;
  }

 private:
  void fail() {
    ok_ = false;
    at_ = text_.size();
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char next() {
    if (at_ == text_.size()) return fail(), '\0';
    return text_[at_++];
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void write(std::string_view text) {
    if (unseen_ != 0) return;
    if (written_.size() + text.size() > kMostBytes) return fail();
    written_ += text;
  }
  template <class F>
  void unseen(F&& f) {
    ++unseen_;
    f();
    --unseen_;
  }
  // f() for each element, up to 'E'; how many there were.
  template <class F>
  std::size_t list(std::string_view between, F&& f) {
    std::size_t count = 0;
    for (; ok_ && !take('E'); ++count) {
      if (count != 0) write(between);
      f();
    }
    return count;
  }
  // f() where a reference leads back to.
  template <class F>
  void referred(F&& f) {
    const std::size_t here = at_ - 1;
    const std::uint64_t there = base_62();
    if (there >= here) return fail();
    if (unseen_ != 0) return;
    const std::size_t after = at_;
    at_ = there;
    f();
    if (ok_) at_ = after;
  }

  std::uint64_t number(unsigned base, char end) {
    std::uint64_t value = 0;
    while (ok_ && !take(end)) {
      const unsigned digit = digit_value(next());
      if (digit >= base || __builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value)) fail();
    }
    return value;
  }
  std::uint64_t base_62() { return take('_') ? 0 : number(62, '_') + 1; }
  std::uint64_t base_62_after(char tag) { return take(tag) ? base_62() + 1 : 0; }

  std::string identifier() {
    const bool encoded = take('u');
    if (!is_digit(peek())) return fail(), "";
    std::size_t size = 0;
    if (!take('0'))
      while (is_digit(peek()) && size <= text_.size()) size = size * 10 + digit_value(next());
    take('_');
    if (size > text_.size() - at_) return fail(), "";
    const std::string_view bytes = text_.substr(at_, size);
    at_ += size;
    if (!encoded) return std::string(bytes);
    const std::optional<std::string> decoded = punycode(bytes);
    if (!decoded) fail();
    return decoded.value_or("");
  }

  // `in_value`: among functions type arguments have "::" in front.
  void path(bool in_value) {
    if (++depth_ > kDeepest) fail();
    switch (const char tag = next()) {
      case 'C':
        base_62_after('s');
        write(identifier());
        break;
      case 'N': nested(in_value); break;
      case 'M':
      case 'X':
      case 'Y':
        if (tag != 'Y') {  // where the implementation stands
          base_62_after('s');
          unseen([this] { path(false); });
        }
        write("<");
        type();
        if (tag != 'M') {
          write(" as ");
          path(false);
        }
        write(">");
        break;
      case 'I':
        path(in_value);
        write(in_value ? "::<" : "<");
        list(", ", [this] { argument(); });
        write(">");
        break;
      case 'B':
        referred([this, in_value] { path(in_value); });
        break;
      default: fail();
    }
    --depth_;
  }

  void nested(bool in_value) {
    const char space = next();
    if (!is_upper(space) && !is_lower(space)) return fail();
    path(in_value);
    const std::uint64_t copy = base_62_after('s');
    const std::string own = identifier();
    if (is_lower(space)) return own.empty() ? void() : write("::" + own);
    const std::string kind = space == 'C' ? "closure" : space == 'S' ? "shim" : std::string(1, space);
    write("::{" + kind + (own.empty() ? "" : ":" + own) + "#" + std::to_string(copy) + "}");
  }

  void argument() {
    if (take('L')) return lifetime(base_62());
    if (take('K')) return constant();
    type();
  }

  // Lifetimes are numbered from the innermost outwards; 0 has no name.
  void lifetime(std::uint64_t index) {
    if (index == 0) return write("'_");
    if (index > bound_) return fail();
    const std::uint64_t from_outside = bound_ - index;
    write(from_outside < 26 ? std::string{'\'', static_cast<char>('a' + from_outside)} : "'_" + std::to_string(from_outside));
  }
  // f() with the lifetimes that are introduced here.
  template <class F>
  void binder(F&& f) {
    const std::uint64_t count = base_62_after('G');
    if (count > text_.size()) return fail();
    for (std::uint64_t i = 0; i < count; ++i) {
      write(i == 0 ? "for<" : ", ");
      ++bound_;
      lifetime(1);
    }
    if (count != 0) write("> ");
    f();
    bound_ -= count;
  }

  void type() {
    if (++depth_ > kDeepest) fail();
    const char tag = next();
    if (const std::string_view basic = basic_type(tag); !basic.empty()) {
      write(basic);
    } else if (tag == 'A' || tag == 'S') {
      write("[");
      type();
      if (tag == 'A') {
        write("; ");
        constant();
      }
      write("]");
    } else if (tag == 'T') {
      write("(");
      write(list(", ", [this] { type(); }) == 1 ? ",)" : ")");
    } else if (tag == 'R' || tag == 'Q') {
      write("&");
      if (const std::uint64_t index = take('L') ? base_62() : 0; index != 0) {
        lifetime(index);
        write(" ");
      }
      if (tag == 'Q') write("mut ");
      type();
    } else if (tag == 'P' || tag == 'O') {
      write(tag == 'P' ? "*const " : "*mut ");
      type();
    } else if (tag == 'F') {
      binder([this] { function(); });
    } else if (tag == 'D') {
      write("dyn ");
      binder([this] { list(" + ", [this] { trait(); }); });
      if (!take('L')) fail();
      if (const std::uint64_t index = base_62(); index != 0) {
        write(" + ");
        lifetime(index);
      }
    } else if (tag == 'B') {
      referred([this] { type(); });
    } else if (ok_) {
      --at_;
      path(false);
    }
    --depth_;
  }

  void function() {
    if (take('U')) write("unsafe ");
    if (take('K')) {
      std::string abi = take('C') ? "C" : identifier();
      std::replace(abi.begin(), abi.end(), '_', '-');
      write("extern \"" + abi + "\" ");
    }
    write("fn(");
    list(", ", [this] { type(); });
    write(")");
    if (take('u')) return;
    write(" -> ");
    type();
  }

  // The trait's own arguments, then what it says about its types: Iterator<Item = u8>.
  void trait() {
    bool open = open_path();
    while (take('p')) {
      write(open ? ", " : "<");
      open = true;
      write(identifier() + " = ");
      type();
    }
    if (open) write(">");
  }
  // Whether its arguments wait for more.
  bool open_path() {
    bool open = false;
    if (++depth_ > kDeepest) fail();
    if (take('B')) {
      referred([this, &open] { open = open_path(); });
    } else if (take('I')) {
      path(false);
      write("<");
      list(", ", [this] { argument(); });
      open = true;
    } else {
      path(false);
    }
    --depth_;
    return open;
  }

  void constant() {
    if (++depth_ > kDeepest) fail();
    const char tag = next();
    if (tag == 'B') {
      referred([this] { constant(); });
    } else if (tag == 'p') {
      write("_");
    } else {
      if (std::string_view("abchijlmnostxy").find(tag) == std::string_view::npos) fail();
      if (take('n')) write("-");
      const std::size_t begin = at_;
      while (ok_ && digit_value(peek()) < 16) ++at_;
      const std::string digits(text_.substr(begin, at_ - begin));
      if (!take('_')) fail();
      if (ok_) value(tag, digits);
    }
    --depth_;
  }
  void value(char type, const std::string& digits) {
    if (digits.size() > 16) return write("0x" + digits);
    const std::uint64_t bits = digits.empty() ? 0 : std::stoull(digits, nullptr, 16);
    if (type == 'b') return bits > 1 ? fail() : write(bits == 1 ? "true" : "false");
    if (type == 'c') return bits > 0x10ffff ? fail() : write("'" + utf8(static_cast<char32_t>(bits)) + "'");
    write(std::to_string(bits));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string written_;
  std::uint64_t bound_ = 0;
  int unseen_ = 0, depth_ = 0;
  bool ok_ = true;
};

}  // namespace

std::optional<std::string> rust_name(std::string_view symbol) {
  if (!symbol.starts_with("_R")) return {};
  return Reader(symbol.substr(2)).name();
}

}  // namespace freeway_profile
