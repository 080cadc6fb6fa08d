# SPDX-License-Identifier: MIT
"""The pure functions of anchor.h as they are written, at their full width: z3 decides what they do to every word.

`words.py src/superblock/anchor.h` reads the header's constants and functions (declarations, `if`, `return`; what C++
does with 64-bit words) into terms, and asks z3 for arguments for which a law below fails. The laws say what the lemmas
..._enc of anchor.v say, but modulo 2^64: counts may grow past their fields while HELD is set.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import z3

_TOKEN = re.compile(r"\s*(0x[0-9a-f]+|\d+|[A-Za-z_][\w:]*|<<|>>|&&|\|\||==|!=|<=|>=|[-+*/&|~!<>?:(){},;=])")
_BINARY = [["||"], ["&&"], ["|"], ["&"], ["==", "!="], ["<", ">", "<=", ">="], ["<<", ">>"], ["+", "-"], ["*"]]
_TYPES = {"u64", "i64", "int", "unsigned", "bool"}


@dataclass
class Term:
    """A value: a bit vector of 64, signed or not, or a truth, or several in braces."""

    value: object
    signed: bool = False


def bits(term: Term) -> z3.BitVecRef:
    """The value as a word."""
    value = term.value
    if z3.is_bool(value):
        return z3.If(value, z3.BitVecVal(1, 64), z3.BitVecVal(0, 64))
    return value


def truth(term: Term) -> z3.BoolRef:
    """The value as a condition."""
    return term.value if z3.is_bool(term.value) else term.value != 0


@dataclass
class Header:
    """What a header defines: constants and enumerators by name, functions by name with the text of their bodies."""

    names: dict[str, Term] = field(default_factory=dict)
    functions: dict[str, tuple[list[str], str]] = field(default_factory=dict)

    def call(self, name: str, *arguments: object) -> list[object]:
        """What a function returns, as a list of values."""
        return self._call(name, [Term(argument) for argument in arguments])

    def _call(self, name: str, arguments: list[Term]) -> list[object]:
        if name == "low_bits":
            return [z3.BitVecVal((1 << z3.simplify(arguments[0].value).as_long()) - 1, 64)]
        parameters, body = self.functions[name]
        return _Reader(self, body, dict(zip(parameters, arguments, strict=True))).statements()


class _Reader:
    """Reads one body, or one expression, and makes a term of it."""

    def __init__(self, header: Header, text: str, known: dict[str, Term]) -> None:
        self.header, self.known, self.place = header, known, 0
        self.tokens = _tokens(text)

    def statements(self) -> list[object]:
        if self._accept("return"):
            return self._returned()
        if self._accept("if"):
            self._expect("(")
            condition = truth(self.expression())
            self._expect(")")
            self._expect("return")
            first = self._returned()
            rest = self.statements()
            return [z3.If(condition, a, b) for a, b in zip(first, rest, strict=True)]
        self._accept("const")
        self._next()  # the type
        name = self._next()
        self._expect("=")
        self.known[name] = self.expression()
        self._expect(";")
        return self.statements()

    def _returned(self) -> list[object]:
        if self._accept("{"):
            values = [self.expression().value]
            while self._accept(","):
                values.append(self.expression().value)
            self._expect("}")
        else:
            values = [self.expression().value]
        self._expect(";")
        return values

    def expression(self) -> Term:
        condition = self._binary(0)
        if not self._accept("?"):
            return condition
        first = self.expression()
        self._expect(":")
        second = self.expression()
        return Term(z3.If(truth(condition), bits(first), bits(second)), first.signed)

    def _binary(self, level: int) -> Term:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in _BINARY[level]:
            left = _operate(self._next(), left, self._binary(level + 1))
        return left

    def _unary(self) -> Term:
        if self._accept("~"):
            return Term(~bits(self._unary()))
        if self._accept("!"):
            return Term(z3.Not(truth(self._unary())))
        if self._accept("("):
            term = self.expression()
            self._expect(")")
            return term
        token = self._next()
        if token[0].isdigit():
            return Term(z3.BitVecVal(int(token, 0), 64), signed=True)
        if token == "static_cast":
            self._expect("<")
            kind = self._next()
            self._expect(">")
            self._expect("(")
            term = self.expression()
            self._expect(")")
            return Term(bits(term), kind in {"i64", "int"})
        if token in _TYPES:
            self._expect("{")
            term = self.expression()
            self._expect("}")
            return Term(bits(term))
        if self._accept("("):
            arguments = [self.expression()]
            while self._accept(","):
                arguments.append(self.expression())
            self._expect(")")
            (value,) = self.header._call(token, arguments)
            return Term(value, token == "non_zero_words")
        return self.known.get(token) or self.header.names[token]

    def _peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _next(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self.place += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise ValueError(f"expected {token!r} before {' '.join(self.tokens[self.place :])!r}")


def _tokens(text: str) -> list[str]:
    place, tokens = 0, []
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"cannot read {text[place : place + 40]!r}")
        tokens.append(match[1])
        place = match.end()
    return tokens


def _operate(sign: str, left: Term, right: Term) -> Term:
    if sign == "&&":
        return Term(z3.And(truth(left), truth(right)))
    if sign == "||":
        return Term(z3.Or(truth(left), truth(right)))
    a, b = bits(left), bits(right)
    signed = left.signed and right.signed
    compare: dict[str, Callable[[], z3.BoolRef]] = {
        "==": lambda: a == b,
        "!=": lambda: a != b,
        "<": lambda: a < b if signed else z3.ULT(a, b),
        ">": lambda: a > b if signed else z3.UGT(a, b),
        "<=": lambda: a <= b if signed else z3.ULE(a, b),
        ">=": lambda: a >= b if signed else z3.UGE(a, b),
    }
    if sign in compare:
        return Term(compare[sign]())
    compute: dict[str, Callable[[], z3.BitVecRef]] = {
        "|": lambda: a | b,
        "&": lambda: a & b,
        "<<": lambda: a << b,
        ">>": lambda: a >> b if left.signed else z3.LShR(a, b),
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
    }
    return Term(compute[sign](), left.signed if sign in {"<<", ">>"} else signed)


def read(text: str) -> Header:
    """The constants, enumerators and functions of a header."""
    text = re.sub(r"//[^\n]*|#[^\n]*", "", text)
    header = Header()
    for enum, names in re.findall(r"enum class (\w+) \{([^}]*)\}", text):
        for number, name in enumerate(names.split(",")):
            header.names[f"{enum}::{name.strip()}"] = Term(z3.BitVecVal(number, 64))
    for name, value in re.findall(r"constexpr \w+ (k\w+) = ([^;]*);", text):
        header.names[name] = _Reader(header, value, {}).expression()
    for name, parameters, body in re.findall(r"constexpr \w+ (\w+)\(([^)]*)\) \{(.*?)\n?\}(?=\n)", text, re.DOTALL):
        header.functions[name] = ([parameter.split()[-1] for parameter in parameters.split(",")], body)
    return header


def laws(h: Header) -> dict[str, z3.BoolRef]:
    """What must hold for all words, by name."""
    a, old, mask, full, nz, fw, xn, xf = z3.BitVecs("a old mask full nz fw xn xf", 64)
    c, w = z3.BitVecs("class words", 64)
    u, held, entry = z3.BitVecs("unlisted held entry", 64)
    shape = z3.And(z3.ULT(c, 256), z3.ULT(0, w), z3.ULT(w, 1 << 18))
    flags = z3.And(z3.ULE(u, 1), z3.ULE(held, 1), z3.ULE(entry, 1))
    none, below = z3.BitVecVal(0, 64), z3.BitVecVal(-(1 << 18), 64)

    def call(name: str, *arguments: object) -> object:
        (value,) = h.call(name, *arguments)
        return value

    def encoded(u: object, held: object, entry: object, nz: object, fw: object) -> z3.BitVecRef:
        return u + 2 * held + 4 * c + 1024 * entry + 4096 * nz + (1 << 32) * fw

    def within(n: z3.BitVecRef) -> z3.BoolRef:
        return z3.And(below <= n, n <= w)

    def count(condition: z3.BoolRef) -> z3.BitVecRef:
        return z3.If(condition, z3.BitVecVal(1, 64), none)

    any_a = encoded(u, held, entry, nz, fw)
    free_a = encoded(u, none, none, nz, fw)
    taken = encoded(none, z3.BitVecVal(1, 64), entry, nz, fw)
    let_go, duty = h.call("let_go", taken, 4096 * xn + (1 << 32) * xf, c, w)
    left_nz, left_fw = nz - xn, fw - xf
    emptied = z3.And(left_nz == w, left_fw == w)
    unlisted = z3.And(z3.Not(emptied), entry == 0, left_nz <= 0)
    popped, find = h.call("popped", a, c, w)
    empty, few = call("is_empty", a, c, w), call("non_zero_words", a) <= 0
    is_held, has_entry, is_unlisted = (call(name, a) for name in ("is_held", "has_entry", "is_unlisted"))
    after = old | mask
    freed = z3.And(mask != 0, old & mask == 0, mask & ~full == 0, old & ~full == 0)
    taking = z3.And(mask != 0, mask & ~old == 0, old & ~full == 0)
    plus, minus = call("plus", old, mask, full), call("minus", old, mask, full)

    def changes(before: z3.BitVecRef, behind: z3.BitVecRef) -> z3.BitVecRef:
        non_zero = count(behind != 0) - count(before != 0)
        return 4096 * non_zero + (1 << 32) * (count(behind == full) - count(before == full))

    def duty_is(name: str) -> z3.BoolRef:
        return duty == h.names[f"Duty::{name}"].value

    def find_is(name: str) -> z3.BoolRef:
        return find == h.names[f"Find::{name}"].value

    return {
        "flags of an encoded anchor": z3.Implies(
            z3.And(shape, flags),
            z3.And(
                call("is_unlisted", any_a) == (u == 1),
                call("is_held", any_a) == (held == 1),
                call("has_entry", any_a) == (entry == 1),
                call("class_of", any_a) == c,
            ),
        ),
        "non_zero_words of an encoded anchor": z3.Implies(
            z3.And(shape, flags, within(nz)), call("non_zero_words", any_a) == nz
        ),
        "is_empty of one that is not held": z3.Implies(
            z3.And(shape, flags, within(nz), within(fw)),
            call("is_empty", free_a, c, w) == z3.And(nz == w, fw == w),
        ),
        "is_empty of one that is held": z3.Implies(z3.And(shape, is_held), z3.Not(empty)),
        "is_empty of one with an entry": z3.Implies(z3.And(shape, has_entry), z3.Not(empty)),
        "is_in_use": call("is_in_use", a, c, w) == z3.And(a != 0, z3.Or(is_held, z3.Not(empty))),
        "born": z3.Implies(shape, call("born", c, w) == encoded(none, z3.BitVecVal(1, 64), none, w, w)),
        "plus": z3.Implies(freed, plus == changes(old, after)),
        "minus": z3.Implies(taking, minus == changes(old & ~mask, old)),
        "is_over": z3.Implies(
            z3.And(mask != 0, mask & ~full == 0, old & ~full == 0),
            call("is_over", old, mask, full) == z3.And(old & mask == 0, changes(old, after) == 0),
        ),
        "wants_listing": call("wants_listing", a) == z3.And(is_unlisted, z3.Not(few)),
        "may_take": call("may_take", a, c, w) == z3.Not(z3.Or(is_held, is_unlisted, few, empty)),
        "popped: a tombstone": z3.Implies(empty, z3.And(popped == a, find_is("kTombstone"))),
        "popped: held": z3.Implies(
            z3.And(z3.Not(empty), is_held), z3.And(popped == a & ~z3.BitVecVal(1024, 64), find_is("kDropped"))
        ),
        "popped: nothing free": z3.Implies(
            z3.And(z3.Not(empty), z3.Not(is_held), few), z3.And(popped == a | 1, find_is("kDropped"))
        ),
        "popped: adopted": z3.Implies(
            z3.And(z3.Not(empty), z3.Not(is_held), z3.Not(few)), z3.And(popped == a | 2, find_is("kAdopted"))
        ),
        # The counts nz, fw and what is owed, xn, xf, are any words: they may have run over.
        "let_go: the word": z3.Implies(
            z3.And(shape, z3.ULE(entry, 1), within(left_nz), within(left_fw)),
            let_go == encoded(count(unlisted), none, none, left_nz, left_fw),
        ),
        "let_go: the duty": z3.Implies(
            z3.And(shape, z3.ULE(entry, 1), within(left_nz), within(left_fw)),
            z3.If(
                emptied,
                z3.If(entry == 1, duty_is("kTombstone"), duty_is("kEmpty")),
                z3.If(z3.Or(entry == 1, left_nz <= 0), duty_is("kNone"), duty_is("kList")),
            ),
        ),
    }


def main() -> int:
    """Status 1 if a law fails for some word: it is printed."""
    failed = 0
    for name, law in laws(read(Path(sys.argv[1]).read_text())).items():
        solver = z3.Solver()
        solver.add(z3.Not(law))
        if (answer := solver.check()) != z3.unsat:
            print(f"{sys.argv[1]}: {name}: fails for {solver.model() if answer == z3.sat else 'all that z3 knows'}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
