// SPDX-License-Identifier: MIT
//
// shapes: boxed trait objects, for a second module to compile.
use std::fmt::Debug;

pub trait Shape: Debug {
    fn area(&self) -> f64;
}

#[derive(Debug)]
struct Square {
    side: f64,
}

#[derive(Debug)]
struct Path {
    points: Vec<(f64, f64)>,
}

impl Shape for Square {
    fn area(&self) -> f64 {
        self.side * self.side
    }
}

impl Shape for Path {
    fn area(&self) -> f64 {
        let turned = self.points.iter().cycle().skip(1);
        self.points.iter().zip(turned).map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum::<f64>().abs() / 2.0
    }
}

pub fn all(count: usize) -> Vec<Box<dyn Shape>> {
    (1..=count)
        .map(|i| -> Box<dyn Shape> {
            let size = i as f64 / 10.0;
            if i % 2 == 0 {
                Box::new(Square { side: size })
            } else {
                Box::new(Path { points: vec![(0.0, 0.0), (size, 0.0), (size, size), (0.0, size)] })
            }
        })
        .collect()
}
