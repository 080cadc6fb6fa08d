// SPDX-License-Identifier: MIT
//
// Functions' names out of symbols: C++'s, and Rust's of both kinds; whatever the symbol is, there is an answer.
#include "names.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using freeway_profile::name_of_symbol;

struct Pair {
  const char* symbol;
  const char* name;
};

TEST(NameOfSymbol, OfCxxIsWithoutParametersAndResults) {
  for (const auto& [symbol, name] :
       {Pair{"main", "main"},
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

// Symbols of RFC 2603 and of the compiler's manual.
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
        {"_RINvC1m1fRDG_INtC1a2FnTRL0_eEEp6OutputRL0_eEL_E",
         "m::f::<&dyn for<'a> a::Fn<(&'a str,), Output = &'a str>>"},
        {"_RINvC1m1fb2", "_RINvC1m1fb2"},
        {"_RNvC7mycrate3foo.llvm.1234", "mycrate::foo"}})
    EXPECT_EQ(name_of_symbol(symbol), name);
}

// References that lead to references double what they stand for with each letter.
TEST(NameOfSymbol, LongOnesEnd) {
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
  EXPECT_EQ(name_of_symbol(symbol + "E"), symbol + "E");
  const std::string deep = "_RINvC1m1f" + std::string(100000, 'S') + "hE";
  EXPECT_EQ(name_of_symbol(deep), deep);
}

TEST(NameOfSymbol, DamagedSymbolsHaveAnAnswer) {
  constexpr std::string_view kSymbols[] = {
      "_RINvCsbFYJioi4cCO_2rs1gDINtB2_3BarhEp3OutINtNtCslNYArtu3iFV_5alloc3vec3VecIBE_hEEEL_Kj5_EB2_",
      "_RINvCsbFYJioi4cCO_2rs1gFG0_RL1_hQL0_hFG_RL0_hERL2_dERL0_fKj1_EB2_",
      "_RINvNtNtCsbFYJioi4cCO_2rsu8gdel_5qa6escher4bachcEB6_"};
  std::size_t names = 0;
  for (const std::string_view whole : kSymbols) {
    ASSERT_NE(name_of_symbol(std::string(whole)), whole);
    for (std::size_t place = 2; place < whole.size(); ++place) {
      name_of_symbol(std::string(whole.substr(0, place)));
      for (int byte = 0; byte < 256; ++byte) {
        std::string damaged(whole);
        damaged[place] = static_cast<char>(byte);
        names += name_of_symbol(damaged) != damaged;
      }
    }
  }
  EXPECT_GT(names, 0u);
}

}  // namespace
