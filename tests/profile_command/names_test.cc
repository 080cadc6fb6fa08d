// SPDX-License-Identifier: MIT
//
// Functions' names out of symbols: C++'s, and Rust's of both kinds; whatever the symbol is, there is an answer.
#include "names.h"

#include <gtest/gtest.h>

#include <string>

#include "rust_names.h"

namespace {

using freeway_profile::name_of_symbol;
using freeway_profile::rust_name;

struct Pair {
  const char* symbol;
  const char* name;
};

TEST(NameOfSymbol, OfCxxIsWithoutParametersAndResults) {
  for (const auto& [symbol, name] : {Pair{"main", "main"},
                                     {"malloc@@GLIBC_2.2.5", "malloc"},
                                     {"_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back"},
                                     {"_Z4growIiEvT_.constprop.0", "grow<int>"},
                                     {"_Znwm", "operator new"}})
    EXPECT_EQ(name_of_symbol(symbol), name);
}

TEST(NameOfSymbol, OfOlderRustIsAsItWasWritten) {
  for (const auto& [symbol, name] :
       {Pair{"_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"},
        {"_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17hfedcba9876543210E",
         "<T as core::convert::Into<U>>::into"},
        {"_ZN6server4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE.llvm.42", "server::main::{{closure}}"},
        // C++'s, which end with what is no hash.
        {"_ZN4core3ptr16h0123456789abcdeE", "core::ptr::h0123456789abcde"},
        {"_ZN4core3ptr17g0123456789abcdefE", "core::ptr::g0123456789abcdef"}})
    EXPECT_EQ(name_of_symbol(symbol), name);
}

// Symbols of RFC 2603 and of the compiler's manual; of the RFC's, those of an older grammar are brought up to the last one.
TEST(NameOfSymbol, OfRustIsByTheGrammarOfRfc2603) {
  for (const auto& [symbol, name] :
       {Pair{"_RNvC7mycrate3foo", "mycrate::foo"},
        {"_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"},
        {"_RNvNtNtC7mycrateu8gdel_5qa6escher4bach", "mycrate::gödel::escher::bach"},
        {"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"},
        {"_RNvMCs15kBYyAo9fc_7mycrateNtB2_7Example3foo", "<mycrate::Example>::foo"},
        {"_RNvMC7mycrateINtC7mycrate3FoomE3foo", "<mycrate::Foo<u32>>::foo"},
        {"_RNvXCs15kBYyAo9fc_7mycrateNtB2_7ExampleNtB2_5Trait3foo", "<mycrate::Example as mycrate::Trait>::foo"},
        {"_RNvXC7mycratemNtC7mycrate3Foo3foo", "<u32 as mycrate::Foo>::foo"},
        {"_RNvYNtC7mycrate3FooNtC7mycrate3Bar3foo", "<mycrate::Foo as mycrate::Bar>::foo"},
        {"_RNvNvXs2_C7mycrateINtC7mycrate3FoopEINtNtC3std7convert4FrompE4from3MSG",
         "<mycrate::Foo<_> as std::convert::From<_>>::from::MSG"},
        {"_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}"},
        {"_RNCNvCsgStHSCytQ6I_7mycrate4mains_0B3_", "mycrate::main::{closure#1}"},
        {"_RNSNvC7mycrate4calls_6vtable", "mycrate::call::{shim:vtable#1}"},
        {"_RINtNtC3std4iter5ChainINtB2_3ZipINtNtB4_3vec8IntoItermEBu_EE",
         "std::iter::Chain::<std::iter::Zip<std::vec::IntoIter<u32>, std::vec::IntoIter<u32>>>"},
        {"_RNvC7mycrate3foo.llvm.1234", "mycrate::foo"},
        {"_RNvC7mycrate3foo$cold", "mycrate::foo"}})
    EXPECT_EQ(name_of_symbol(symbol), name);
}

// Symbols of functions that differ in their type arguments only.
TEST(NameOfSymbol, OfRustHasItsTypesAndConstants) {
  for (const auto& [arguments, text] :
       {Pair{"abcdefhijlmnopqstuvxyzE", nullptr},  // q is no type
        {"abcdefhijE", "i8, bool, char, f64, str, f32, u8, isize, usize"},
        {"lmnopstuvxyzE", "i32, u32, i128, u128, _, i16, u16, (), ..., i64, u64, !"},
        {"TETaETabEE", "(), (i8,), (i8, bool)"},
        {"ShAhj3_E", "[u8], [u8; 3]"},
        {"RhQhPhOhE", "&u8, &mut u8, *const u8, *mut u8"},
        {"L_RL_hE", "'_, &u8"},
        {"FEuFhEtE", "fn(), fn(u8) -> u16"},
        {"FUKCPhOavEzE", "unsafe extern \"C\" fn(*const u8, *mut i8, ...) -> !"},
        {"FK13rust_dash_abiEuE", "extern \"rust-dash-abi\" fn()"},
        {"FG0_RL1_hQL0_hFG_RL0_hERL2_dERL0_fE", "for<'a, 'b> fn(&'a u8, &'b mut u8, for<'c> fn(&'c u8) -> &'a f64) -> &'b f32"},
        {"DNtC1a1BEL_E", "dyn a::B"},
        {"DNtC1a1BNtC1a1CEL_E", "dyn a::B + a::C"},
        {"DINtC1a1BhEp3OutaEL_E", "dyn a::B<u8, Out = i8>"},
        {"RDG_INtC1a2FnTRL0_eEEp6OutputRL0_eEL_E", "&dyn for<'a> a::Fn<(&'a str,), Output = &'a str>"},
        {"FG_DNtC1a1BEL0_EuE", "for<'a> fn(dyn a::B + 'a)"},
        {"Kj0_Kj7b_Klnf_Kb1_Kb0_Kc78_E", "0, 123, -15, true, false, 'x'"},
        {"Koffffffffffffffffffffffffffffffff_KpE", "0xffffffffffffffffffffffffffffffff, _"},
        {"Kj7b_KB8_E", "123, 123"},
        {"Kb2_E", nullptr},
        {"Kd0_E", nullptr},
        {"Kj7bE", nullptr},
        {"L0_E", nullptr},  // nothing binds it
        {"hBz_E", nullptr},
        {"hBd_E", nullptr},  // forwards
        {"hh", nullptr}}) {
    const std::string symbol = std::string("_RINvC1m1f") + arguments;
    EXPECT_EQ(name_of_symbol(symbol), text == nullptr ? symbol : std::string("m::f::<") + text + ">") << symbol;
  }
}

TEST(RustName, LettersOfOtherAlphabetsAreDecoded) {
  for (const auto& [encoded, text] : {Pair{"8gdel_5qa", "gödel"},
                                      {"6f_5gaa", "føø"},
                                      {"7___ylb7e", "α_ω"},
                                      {"6n84amf", "铁锈"},
                                      {"4fq9h", "🤦"},
                                      {"6_2xaedc", "ρυστ"},
                                      {"16___wmbged7083thoa", "铁锈_ρυστ"}})
    EXPECT_EQ(rust_name(std::string("_RNvC1mu") + encoded), std::string("m::") + text);
  for (const char* encoded : {"3a_z", "3a_A", "9_99999999", "4fq9"})  // not at its end, no digit, no character, cut off
    EXPECT_EQ(rust_name(std::string("_RNvC1mu") + encoded), std::nullopt) << encoded;
}

// References that lead to references double what they stand for with each letter.
TEST(RustName, LongOnesEnd) {
  std::string symbol = "_RINvC1m1fThhE";
  std::size_t last = 8;
  const auto base_62 = [](std::size_t number) {
    constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string digits;
    for (std::size_t rest = number - 1;; rest /= 62) {
      digits.insert(digits.begin(), kDigits[rest % 62]);
      if (rest < 62) return digits + "_";
    }
  };
  for (int i = 0; i < 60; ++i) {
    const std::size_t begin = symbol.size() - 2;
    symbol += "TB" + base_62(last) + "B" + base_62(last) + "E";
    last = begin;
  }
  EXPECT_EQ(rust_name(symbol + "E"), std::nullopt);
  EXPECT_EQ(rust_name("_RINvC1m1f" + std::string(100000, 'S') + "hE"), std::nullopt);
  EXPECT_EQ(rust_name("_RINvC1m1fFGzzzzzzzzzz_EuE"), std::nullopt);
  EXPECT_EQ(rust_name("_RNvC1m99999999999999999999999f"), std::nullopt);
}

TEST(RustName, DamagedSymbolsHaveAnAnswer) {
  constexpr std::string_view kSymbols[] = {
      "_RINvCsbFYJioi4cCO_2rs1gDINtB2_3BarhEp3OutINtNtCslNYArtu3iFV_5alloc3vec3VecIBE_hEEEL_Kj5_EB2_",
      "_RINvCsbFYJioi4cCO_2rs1gFG0_RL1_hQL0_hFG_RL0_hERL2_dERL0_fKj1_EB2_",
      "_RINvNtNtCsbFYJioi4cCO_2rsu8gdel_5qa6escher4bachcEB6_"};
  std::size_t names = 0;
  for (const std::string_view whole : kSymbols) {
    ASSERT_TRUE(rust_name(whole));
    for (std::size_t place = 2; place < whole.size(); ++place) {
      rust_name(whole.substr(0, place));
      for (int byte = 0; byte < 256; ++byte) {
        std::string damaged(whole);
        damaged[place] = static_cast<char>(byte);
        names += rust_name(damaged).has_value();
      }
    }
  }
  EXPECT_GT(names, 0u);
}

}  // namespace
