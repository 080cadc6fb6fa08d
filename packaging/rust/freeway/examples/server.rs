// SPDX-License-Identifier: MIT
//! A small HTTP server that tells about its heap: each request has a thread, and leaves a little behind.
//!
//!     cargo run --release --example server -- 8080
//!     curl localhost:8080/             # one more line is remembered
//!     curl localhost:8080/stats        # what the heap holds
//!     curl localhost:8080/trim         # forgets, and gives memory back
//!     curl localhost:8080/profile >server.heap && freeway profile top server.heap
use std::io::{BufRead, BufReader, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::io::AsRawFd;
use std::sync::{Arc, Mutex};

#[global_allocator]
static GLOBAL: freeway::Freeway = freeway::Freeway;

// The environment may say otherwise: FREEWAY_PROFILE=64k.
freeway::options!("PROFILE=512k");

type Lines = Arc<Mutex<Vec<String>>>;

fn reply(mut stream: TcpStream, lines: &Lines) -> Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > "\r\n".len() {
        header.clear();
    }
    let path = request.split_whitespace().nth(1).unwrap_or("/").to_owned();
    stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n")?;
    match path.as_str() {
        "/stats" => {
            let stats = freeway::stats();
            writeln!(
                stream,
                "live {}\ncached {}\nheld {}\npurged {}",
                stats.live, stats.cached, stats.held, stats.purged
            )
        }
        "/trim" => {
            lines.lock().unwrap().clear();
            writeln!(stream, "given back {}", freeway::trim(0))
        }
        "/profile" => Ok(freeway::profile::dump(stream.as_raw_fd())?),
        _ => {
            let mut lines = lines.lock().unwrap();
            lines.push("a request ".repeat(100));
            writeln!(stream, "{} lines", lines.len())
        }
    }
}

fn main() -> Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("http://{}/", listener.local_addr()?);
    let lines = Lines::default();
    for stream in listener.incoming() {
        let (stream, lines) = (stream?, lines.clone());
        std::thread::spawn(move || {
            // A client that has gone away is no fault of the server.
            if let Err(error) = reply(stream, &lines) {
                eprintln!("{}", error);
            }
        });
    }
    Ok(())
}
