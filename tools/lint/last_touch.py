# SPDX-License-Identifier: MIT
"""Last touch: whoever has handed a descriptor over to the other threads does not touch it again.

Two ways to say so, both followed wherever control may go in the same function, into the next round of loops too:

1. `// LAST TOUCH: desc`, at the end of the statement or alone on the line after it: from there on `desc` must not be
   mentioned until it is set anew (`desc = ...`). Every CAS on an anchor that lets a descriptor go or takes the duty to
   list it (`anchor.cas_acq_rel`, `anchor.cas_acquire`) must be followed by such a mark in its function.
2. Without any mark: `push(d, ...)` on a list in src/superblock hands `d` over, and so does a call of a function that
   pushes its parameter, or hands it on. After it neither `d` nor a `Descriptor&` made from `d` may be mentioned. Layers
   above are checked for the functions of src/superblock that they call on an object (`superblocks.let_go(d)`).

A tag makes a stale push harmless to the list; nothing makes a stale store harmless to the next owner's descriptor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.lint.source import CXX_SUFFIXES, Finding, Line, library_files, split_lines
from tools.lint.statements import Block, Function, If, Loop, Run, Statement, Switch, Token, functions, runs

FOLDER = "superblock"
# Layers below know nothing of descriptors: their `push` is the list's own.
LAYERS_BELOW = {"base", "arch", "os", "sync", "size", "pages"}
GIVING_STEPS = {"cas_acq_rel", "cas_acquire"}

_MARKER = re.compile(r"\bLAST TOUCH:\s*(\w+(?:\s*,\s*\w+)*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NO_RETURN = {"abort", "check_failed", "__builtin_unreachable", "__builtin_trap"}

# What may not be touched: (name, line since when).
Gone = frozenset[tuple[str, int]]


@dataclass
class Handing:
    """Functions that hand over one of their arguments: name -> positions of those arguments."""

    positions: dict[str, set[int]] = field(default_factory=lambda: {"push": {0}})
    members_only: bool = False  # only calls on an object, `x.let_go(d)`

    def calls(self, run: Run) -> list[tuple[str, int]]:
        """The names that a run hands over, and the lines where it does."""
        found = []
        for index, token in enumerate(run.tokens[:-1]):
            if token.text not in self.positions or run.tokens[index + 1].text != "(":
                continue
            before = run.tokens[index - 1].text if index > 0 else ""
            if before == "::" or (self.members_only and before not in {".", "->"}):
                continue  # a pure function of the same name; a function of another layer
            arguments = _arguments(run.tokens[index + 2 :])
            for position in self.positions[token.text]:
                if position < len(arguments) and len(arguments[position]) == 1:
                    found.append((arguments[position][0], token.line))
        return found


def check(root: Path) -> list[Finding]:
    """All faults of last touches under `root`."""
    sources = {
        path: split_lines((root / path).read_text())
        for path in library_files(root)
        if path.suffix in CXX_SUFFIXES and path.parts[1] not in LAYERS_BELOW
    }
    handing = _handing_functions([lines for path, lines in sources.items() if path.parts[1] == FOLDER])
    findings = []
    for path, lines in sources.items():
        findings += _check_lines(path, lines, handing)
    return findings


def _handing_functions(sources: list[list[Line]]) -> Handing:
    """Closes `push` under "calls with its own parameter"."""
    handing = Handing()
    known = [function for lines in sources for function in functions(lines)]
    grown = True
    while grown:
        grown = False
        for function in known:
            for run in runs(function.body):
                for name, _ in handing.calls(run):
                    if name not in function.parameters:
                        continue
                    positions = handing.positions.setdefault(function.name, set())
                    position = function.parameters.index(name)
                    grown |= position not in positions
                    positions.add(position)
    return handing


def _check_lines(path: Path, lines: list[Line], handing: Handing) -> list[Finding]:
    inside = path.parts[1] == FOLDER
    if not inside:
        own_names = {name: places for name, places in handing.positions.items() if name != "push"}
        handing = Handing(own_names, members_only=True)
    markers = {line.number: re.split(r"\s*,\s*", m.group(1)) for line in lines if (m := _MARKER.search(line.comment))}
    findings = []
    used: set[int] = set()
    for function in functions(lines):
        walk = _Walk(function, markers, handing)
        walk.block(function.body, frozenset())
        findings += [Finding(str(path), line, message) for line, message in walk.faults]
        used |= walk.markers_used
        if inside:
            findings += _unmarked_steps(path, function, walk.markers_used)
    for number in sorted(set(markers) - used):
        findings.append(Finding(str(path), number, "LAST TOUCH outside of a function"))
    return sorted(set(findings))


def _unmarked_steps(path: Path, function: Function, markers: set[int]) -> list[Finding]:
    """The steps that give a descriptor away without saying what may not be touched after them."""
    findings = []
    for run in runs(function.body):
        texts = [token.text for token in run.tokens]
        for index, token in enumerate(run.tokens):
            is_step = token.text in GIVING_STEPS and index > 1 and texts[index - 2 : index] == ["anchor", "."]
            if is_step and not any(line >= token.line for line in markers):
                message = f"anchor.{token.text} is not followed by '// LAST TOUCH: <the descriptor>'"
                findings.append(Finding(str(path), token.line, message))
    return findings


class _Walk:
    """Follows control through one function and carries along what may not be touched any more."""

    def __init__(self, function: Function, markers: dict[int, list[str]], handing: Handing) -> None:
        self.faults: set[tuple[int, str]] = set()
        self.markers_used: set[int] = set()
        self._handing = handing
        self._breaks: list[Gone] = []
        self._continues: list[Gone] = []
        self._references = _descriptor_references(function)
        # A marker belongs to the last run that has a token on its line.
        self._marks: dict[int, list[tuple[str, int]]] = {}
        owner: dict[int, Run] = {}
        for run in runs(function.body):
            for token in run.tokens:
                if len(run.tokens) > 1 or token.text != ";":
                    owner[token.line] = run
        for line, names in markers.items():
            if line in owner:
                self.markers_used.add(line)
                self._marks.setdefault(id(owner[line]), []).extend((name, line) for name in names)

    def statement(self, statement: Statement, gone: Gone) -> Gone | None:
        """What is gone after the statement; None if control never comes out at its end."""
        match statement:
            case Run():
                return self._run_and_leave(statement, gone)
            case Block():
                return self.block(statement, gone)
            case If():
                gone = self._run(statement.condition, gone)
                then = self.statement(statement.then, gone)
                otherwise = gone if statement.otherwise is None else self.statement(statement.otherwise, gone)
                return _join(then, otherwise)
            case Switch():
                gone = self._run(statement.value, gone)
                outer, self._breaks = self._breaks, []
                end = self._switch_body(statement.body, gone)
                result = _join(end, gone, *self._breaks)
                self._breaks = outer
                return result
            case Loop():
                return self._loop(statement, gone)

    def block(self, block: Block, gone: Gone) -> Gone | None:
        """What is gone after the block; None if control never comes out at its end."""
        current: Gone | None = gone
        for statement in block.body:
            if current is None:
                return None
            current = self.statement(statement, current)
        return current

    def _switch_body(self, body: Statement, gone: Gone) -> Gone | None:
        """Each case may be jumped to from the top, or fallen into."""
        current: Gone | None = gone
        for statement in body.body if isinstance(body, Block) else [body]:
            if isinstance(statement, Run) and statement.first_word in {"case", "default"}:
                current = _join(current, gone)
            elif current is not None:
                current = self.statement(statement, current)
        return current

    def _loop(self, loop: Loop, gone: Gone) -> Gone | None:
        outer = self._breaks, self._continues
        self._breaks, self._continues = [], []
        entry: Gone | None = self._run(loop.head, gone)
        leaving: list[Gone | None] = []
        for _ in range(2):  # what a round leaves behind shows in the next
            if entry is None:
                break
            self._continues = []
            if loop.body_first:
                after = _join(self.statement(loop.body, entry), *self._continues)
                entry = None if after is None else self._run(loop.condition, after, marks=False)
                if entry is not None:
                    leaving.append(entry | self._marks_on(loop.condition))
            else:
                checked = self._run(loop.condition, entry, marks=False)
                if not _is_endless(loop.condition):
                    leaving.append(checked | self._marks_on(loop.condition))
                after = _join(self.statement(loop.body, checked), *self._continues)
                entry = None if after is None else self._run(loop.step, after)
        result = _join(*leaving, *self._breaks)
        self._breaks, self._continues = outer
        return result

    def _run_and_leave(self, run: Run, gone: Gone) -> Gone | None:
        gone = self._run(run, gone)
        match run.first_word:
            case "return" | "goto" | "throw":
                return None
            case "break":
                self._breaks.append(gone)
                return None
            case "continue":
                self._continues.append(gone)
                return None
        return None if run.first_word in _NO_RETURN else gone

    def _marks_on(self, run: Run) -> Gone:
        return frozenset(self._marks.get(id(run), []))

    def _run(self, run: Run, gone: Gone, *, marks: bool = True) -> Gone:
        """What is gone after a run. A mark on a loop's condition (`marks` false) holds when the loop is left."""
        names = {name for name, _ in gone}
        for name in names & {token.text for token in run.tokens}:
            touch = _first_touch(run.tokens, name)
            if touch is None:
                if _sets_anew(run.tokens, name):
                    gone = frozenset(entry for entry in gone if entry[0] != name)
                continue
            for other, since in gone:
                if other == name:
                    self.faults.add((touch.line, f"'{name}' is touched after its last touch on line {since}"))
        added = list(self._marks_on(run)) if marks else []
        for name, line in self._handing.calls(run):
            added += [(name, line), *((reference, line) for reference in self._references.get(name, []))]
        return gone | frozenset(added)


def _join(*states: Gone | None) -> Gone | None:
    """What is gone where several ways meet; None if none of them is open."""
    open_states = [state for state in states if state is not None]
    return frozenset().union(*open_states) if open_states else None


def _is_endless(condition: Run) -> bool:
    return [token.text for token in condition.tokens] in ([], ["(", "true", ")"], ["true"], ["(", "1", ")"])


def _mentions(tokens: list[Token], name: str) -> list[int]:
    """Indexes of `name` itself, not of a member of something else that has the same name."""
    return [
        index
        for index, token in enumerate(tokens)
        if token.text == name and (index == 0 or tokens[index - 1].text not in {".", "->", "::"})
    ]


def _is_set_at(tokens: list[Token], index: int) -> bool:
    """Is the name given to something else there?

    `d = ...`, `T* d = ...`, `T d{...}` and `for (T d : ...)` do that; `*d = ...` does not.
    """
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    before = tokens[index - 1].text if index > 0 else ""
    before_that = tokens[index - 2].text if index > 1 else ""
    is_type = bool(_WORD.fullmatch(before)) and before not in {"return", "case", "throw", "else"}
    is_type = is_type or (before in {"*", "&"} and (bool(_WORD.fullmatch(before_that)) or before_that in {">", "*"}))
    if following == "=":
        return before != "*" or is_type
    return is_type and following in {"{", "(", ":", ";"}


def _sets_anew(tokens: list[Token], name: str) -> bool:
    return any(_is_set_at(tokens, index) for index in _mentions(tokens, name))


def _first_touch(tokens: list[Token], name: str) -> Token | None:
    for index in _mentions(tokens, name):
        if not _is_set_at(tokens, index):
            return tokens[index]
    return None


def _descriptor_references(function: Function) -> dict[str, list[str]]:
    """Name -> references made from it: `Descriptor<Env>& desc = backing.descriptor(d)` makes desc one of d."""
    references: dict[str, list[str]] = {}
    for run in runs(function.body):
        texts = [token.text for token in run.tokens]
        if "Descriptor" not in texts or "=" not in texts:
            continue
        equals = texts.index("=")
        if equals < 2 or texts[equals - 2] not in {"&", "*"} or "Descriptor" not in texts[:equals]:
            continue
        for index, text in enumerate(texts):
            if index > equals and _WORD.fullmatch(text):
                references.setdefault(text, []).append(texts[equals - 1])
    return references


def _arguments(tokens: list[Token]) -> list[list[str]]:
    """The arguments of a call, from the token after its opening bracket on."""
    arguments: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        if depth == 0 and token.text == ")":
            break
        if depth == 0 and token.text == ",":
            arguments.append([])
            continue
        depth += (token.text in {"(", "{", "["}) - (token.text in {")", "}", "]"})
        arguments[-1].append(token.text)
    return arguments
