// SPDX-License-Identifier: MIT
//! The work: `ALLOCATOR WORKLOAD THREADS ROUNDS` does it and prints a sum, which is the same under all allocators.
use serde_json::{json, Value};
use std::sync::mpsc;
use std::thread;

/// A document as services exchange them: records with texts, numbers and lists.
fn document() -> String {
    let record = |number: u64| {
        json!({
            "id": number,
            "name": format!("customer {}", number * 7919 % 10_007),
            "tags": (0..number % 9).map(|tag| format!("tag-{}", tag)).collect::<Vec<_>>(),
            "address": {"street": "a street ".repeat(number as usize % 4 + 1), "number": number % 300},
            "history": (0..number % 20).map(|n| json!({"at": n * number, "paid": n % 2 == 0})).collect::<Vec<_>>(),
        })
    };
    Value::Array((0..1000).map(record).collect()).to_string()
}

/// serde_json parses the document, changes it, and writes it again.
fn json(rounds: usize) -> usize {
    let text = document();
    let round = |_| {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let kept = value.clone();
        for record in value.as_array_mut().unwrap() {
            record["name"] = Value::String(record["name"].as_str().unwrap().to_uppercase());
        }
        value.to_string().len() + kept.as_array().unwrap().len()
    };
    (0..rounds).map(round).sum()
}

/// syn parses Rust sources to trees, and prints nothing of them.
fn syntax(rounds: usize) -> usize {
    let sources = [
        include_str!("../../freeway/tests/allocator.rs"),
        include_str!("../../freeway-sys/tests/header.rs"),
        include_str!("../../freeway-sys/src/lib.rs"),
        include_str!("lib.rs"),
    ];
    let items = |source: &str| syn::parse_file(source).unwrap().items.len();
    (0..rounds).map(|_| sources.iter().map(|source| items(source)).sum::<usize>()).sum()
}

/// serde_json parses in one thread, and the thread that gets the tree reads and frees it.
fn handed_over(rounds: usize) -> usize {
    let (sender, receiver) = mpsc::sync_channel::<Value>(8);
    let text = document();
    let parser = thread::spawn(move || {
        for _ in 0..rounds {
            sender.send(serde_json::from_str(&text).unwrap()).unwrap();
        }
    });
    let sum = receiver.iter().map(|value| value[7]["tags"].as_array().unwrap().len()).sum();
    parser.join().unwrap();
    sum
}

/// Called by each program of src/bin.
pub fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let usage = "usage: ALLOCATOR json|syntax|handed_over THREADS ROUNDS";
    let work = match arguments.get(1).map(String::as_str) {
        Some("json") => json,
        Some("syntax") => syntax,
        Some("handed_over") => handed_over,
        _ => panic!("{}", usage),
    };
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok()).expect(usage);
    let (threads, rounds) = (number(2), number(3));
    let workers: Vec<_> = (0..threads).map(|_| thread::spawn(move || work(rounds))).collect();
    println!("{}", workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>());
}
