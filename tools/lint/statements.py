# SPDX-License-Identifier: MIT
"""A small parser of C++ function bodies: blocks, ifs, loops, switches, and everything else as a run of tokens.

Enough to say which statements control may reach after a given one. It does not know types, templates or macros; a
macro is a run of tokens like any other. A line with nothing but a comment that starts with a word in capitals and a
colon (`// LAST TOUCH: d`) is a run too, of the one token MARK.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.lint.source import Line

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|->|::|<<=|>>=|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\"\"|\S")
_MARK_LINE = re.compile(r"^//\s*[A-Z][A-Z ]+:")
MARK = "<mark>"
_SCOPE_WORDS = {"namespace", "class", "struct", "union", "enum", "extern"}


@dataclass(frozen=True)
class Token:
    text: str
    line: int


@dataclass
class Run:
    """Tokens that are executed together: a simple statement, or the condition of a larger one."""

    tokens: list[Token]

    @property
    def first_word(self) -> str:
        return self.tokens[0].text if self.tokens else ""


@dataclass
class Block:
    body: list[Statement] = field(default_factory=list)


@dataclass
class If:
    condition: Run
    then: Statement
    otherwise: Statement | None


@dataclass
class Loop:
    """`head` runs before the first round, `condition` before each (after each, in a do loop), `step` after each."""

    head: Run
    condition: Run
    step: Run
    body: Statement
    body_first: bool = False


@dataclass
class Switch:
    value: Run
    body: Statement


Statement = Run | Block | If | Loop | Switch


@dataclass
class Function:
    name: str
    parameters: list[str]
    body: Block


def functions(lines: list[Line]) -> Iterator[Function]:
    """All functions of a file that have a body, class members included."""
    yield from _Parser(_tokens(lines)).functions()


def runs(statement: Statement) -> Iterator[Run]:
    """All runs inside a statement, in the order of the text."""
    match statement:
        case Run():
            yield statement
        case Block():
            for inner in statement.body:
                yield from runs(inner)
        case If():
            yield statement.condition
            yield from runs(statement.then)
            if statement.otherwise is not None:
                yield from runs(statement.otherwise)
        case Loop():
            yield statement.head
            if not statement.body_first:
                yield from (statement.condition, statement.step)
            yield from runs(statement.body)
            if statement.body_first:
                yield statement.condition
        case Switch():
            yield statement.value
            yield from runs(statement.body)


def _tokens(lines: list[Line]) -> list[Token]:
    found = []
    continued = False
    for line in lines:
        directive = continued or line.code.lstrip().startswith("#")
        continued = directive and line.code.endswith("\\")
        if not line.code.strip() and _MARK_LINE.match(line.comment):
            found += [Token(MARK, line.number), Token(";", line.number)]
        elif not directive:
            found += [Token(text, line.number) for text in _TOKEN.findall(line.code)]
    return found


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def functions(self) -> Iterator[Function]:
        """Walks over declarations; descends into scopes, yields functions, skips initialisers."""
        opener: list[str] = []
        while self._more():
            text = self._peek()
            if text == "{":
                kind = _kind_of_brace(opener)
                if kind == "function":
                    name, parameters = _signature(opener)
                    yield Function(name, parameters, self._block())
                elif kind == "scope":
                    self._at += 1
                else:
                    self._balanced()
                opener = []
            elif text in {";", "}"}:
                self._at += 1
                opener = []
            else:
                opener.append(text)
                self._at += 1

    def _more(self) -> bool:
        return self._at < len(self._tokens)

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._more() else ""

    def _balanced(self) -> list[Token]:
        """Takes a bracketed group, brackets included."""
        closers = {"(": ")", "{": "}", "[": "]"}
        start = self._at
        open_brackets = []
        while self._more():
            text = self._peek()
            if text in closers:
                open_brackets.append(closers[text])
            elif open_brackets and text == open_brackets[-1]:
                open_brackets.pop()
            self._at += 1
            if not open_brackets:
                break
        return self._tokens[start : self._at]

    def _block(self) -> Block:
        self._at += 1  # {
        block = Block()
        while self._more() and self._peek() != "}":
            block.body.append(self._statement())
        self._at += 1  # }
        return block

    def _condition(self) -> Run:
        while self._peek() in {"constexpr", "consteval"}:
            self._at += 1
        return Run(self._balanced()) if self._peek() == "(" else Run([])

    def _statement(self) -> Statement:
        match self._peek():
            case "{":
                return self._block()
            case "if":
                return self._if()
            case "while" | "for" | "do":
                return self._loop()
            case "switch":
                self._at += 1
                value = self._condition()
                return Switch(value, self._statement())
            case "case" | "default":
                start = self._at
                while self._more() and self._peek() not in {":", "}"}:
                    self._at += 1
                self._at += self._peek() == ":"
                return Run(self._tokens[start : self._at])
            case "else":  # belongs to an if that a macro hides
                self._at += 1
                return self._statement()
            case _:
                return self._simple()

    def _if(self) -> If:
        self._at += 1
        condition = self._condition()
        then = self._statement()
        otherwise = None
        if self._peek() == "else":
            self._at += 1
            otherwise = self._statement()
        return If(condition, then, otherwise)

    def _loop(self) -> Loop:
        word = self._peek()
        self._at += 1
        if word == "do":
            body = self._statement()
            self._at += self._peek() == "while"
            condition = self._condition()
            self._at += self._peek() == ";"
            return Loop(Run([]), condition, Run([]), body, body_first=True)
        header = self._condition()
        body = self._statement()
        if word == "while":
            return Loop(Run([]), header, Run([]), body)
        parts = _split_at_semicolons(header.tokens[1:-1])
        if len(parts) == 3:
            return Loop(Run(parts[0]), Run(parts[1]), Run(parts[2]), body)
        return Loop(Run([]), header, Run([]), body)  # over a range: its variable is set each round

    def _simple(self) -> Run:
        start = self._at
        while self._more() and self._peek() not in {";", "}"}:
            if self._peek() in {"(", "{", "["}:
                self._balanced()
            else:
                self._at += 1
        self._at += self._peek() == ";"
        return Run(self._tokens[start : self._at])


def _split_at_semicolons(tokens: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in {"(", "{", "["}) - (token.text in {")", "}", "]"})
        if token.text == ";" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _signature(opener: list[str]) -> tuple[str, list[str]]:
    """Name and parameter names of a function from the tokens before its body."""
    start = opener.index("(")
    name = opener[start - 1] if start > 0 else ""
    parameters = []
    depth = 0
    last_word = ""
    for text in opener[start:]:
        if depth == 1 and text in {",", ")"}:
            parameters.append(last_word)
            last_word = ""
        depth += (text in {"(", "<", "["}) - (text in {")", ">", "]"})
        if depth == 0:
            break
        if depth == 1 and re.match(r"[A-Za-z_]", text):
            last_word = text
    return name, [parameter for parameter in parameters if parameter]


def _kind_of_brace(opener: list[str]) -> str:
    """What a brace after these tokens opens, outside of functions."""
    if "(" in opener and not ("=" in opener and "operator" not in opener and opener.index("=") < opener.index("(")):
        return "function"
    if _SCOPE_WORDS & set(opener):
        return "scope"
    return "initialiser"
