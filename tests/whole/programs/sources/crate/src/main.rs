// SPDX-License-Identifier: MIT
//
// workload: collections, strings and threads on Rust's system allocator, which is malloc. Prints the same every time.
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc;
use std::thread;

mod shapes;

fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn churn(seed: u64) -> usize {
    let mut next = numbers(seed);
    let mut held: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut total = 0;
    for _ in 0..50_000 {
        let bits = next();
        if let Some(old) = held.insert(bits % 4_000, vec![bits as u8; (bits >> 32) as usize % 400]) {
            total += old.len();
        }
    }
    total
}

fn main() {
    let (sender, receiver) = mpsc::channel::<(u64, Box<[u64]>)>();
    let workers: Vec<_> = (1..=4)
        .map(|seed| {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut next = numbers(seed);
                for round in 0..2_000 {
                    let block: Box<[u64]> = (0..next() % 100).map(|i| i * round).collect();
                    sender.send((seed, block)).expect("the receiver lives as long as the workers");
                }
                churn(seed)
            })
        })
        .collect();
    drop(sender);
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    let mut recent = VecDeque::new();
    for (seed, block) in receiver {
        *sums.entry(seed).or_default() += block.iter().sum::<u64>();
        recent.push_back(block);
        if recent.len() > 100 {
            recent.pop_front();
        }
    }
    println!("{sums:?}");
    for worker in workers {
        println!("{}", worker.join().expect("a worker panicked"));
    }
    let shapes = shapes::all(1000);
    println!("{:.3}", shapes.iter().map(|shape| shape.area()).sum::<f64>());
    let mut text = String::new();
    for shape in &shapes {
        text += &format!("{shape:?} ");
    }
    println!("{}", text.split_whitespace().filter(|word| word.contains("side")).count());
}
