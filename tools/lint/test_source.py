# SPDX-License-Identifier: MIT
"""The scanner keeps code, comments and strings apart; the parser finds functions and what may follow what."""

from __future__ import annotations

from tools.lint.source import split_lines
from tools.lint.statements import functions, runs


def test_comments_are_no_code_and_code_is_no_comment() -> None:
    lines = split_lines("a();  // b()\n/* c()\n d() */ e();\n")
    assert [line.code.strip() for line in lines] == ["a();", "", "e();", ""]
    assert [line.comment for line in lines] == ["// b()", "/* c()", "d() */", ""]


def test_strings_are_blanked_but_include_paths_are_kept() -> None:
    lines = split_lines('#include "sync/stack.h"\nlog("x // no comment");\n')
    assert lines[0].code == '#include "sync/stack.h"'
    assert lines[1].code == 'log("");'
    assert lines[1].comment == ""


def test_raw_strings_and_digit_separators() -> None:
    lines = split_lines('f(R"(\n// " no comment\n)");\nint n = 1\'000\'000;  // one million\n')
    assert lines[1].comment == ""
    assert lines[3].code == "int n = 1'000'000;"
    assert lines[3].comment == "// one million"


def test_functions_are_found_in_namespaces_and_classes() -> None:
    text = """
namespace freeway {
constexpr int kTable[] = {1, 2, 3};
template <class Env>
class Stack {
 public:
  void push(unsigned node, Links&& links) { head_.set(node); }
  bool empty() const { return true; }
};
int outer(Map<int, long> map) { auto f = [](int x) { return x; }; return f(1); }
}
"""
    found = {function.name: function.parameters for function in functions(split_lines(text))}
    assert found == {"push": ["node", "links"], "empty": [], "outer": ["map"]}


def test_runs_come_in_the_order_of_the_text() -> None:
    text = "void f() {\n  if (a) b(); else { c(); }\n  for (int i = d; i < e; ++i) g();\n  do h(); while (j);\n}\n"
    (function,) = functions(split_lines(text))
    words = ["".join(token.text for token in run.tokens) for run in runs(function.body)]
    assert words == ["(a)", "b();", "c();", "inti=d", "i<e", "++i", "g();", "", "h();", "(j)"]
