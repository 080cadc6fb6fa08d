// SPDX-License-Identifier: MIT
//! Options of the program's own, and that the environment goes before them.
use std::process::Command;

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

freeway::options!("LIMIT=300m,400m");

/// The limit in a process of its own, with this in the environment; "" as if it were not there.
fn limit_with(value: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(["--nocapture", "prints"]).env("FREEWAY_LIMIT", value).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split("hard limit: ").nth(1));
    line.unwrap_or_else(|| panic!("{}", text)).to_owned()
}

#[test]
fn prints() {
    println!("hard limit: {}", freeway::stats().hard_limit);
}

#[test]
fn the_program_sets_options_and_the_environment_goes_before() {
    assert_eq!(limit_with(""), (400 << 20).to_string());
    assert_eq!(limit_with("100m,200m"), (200 << 20).to_string());
}
