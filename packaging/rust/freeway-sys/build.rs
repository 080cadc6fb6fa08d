// SPDX-License-Identifier: MIT
//! Builds what CMake builds as libfreeway.a, by recipe.txt: without CMake, and without the C++ library.
use std::env;
use std::path::Path;

/// One line of recipe.txt: a word, what it is about, and what comes behind that.
struct Line {
    word: &'static str,
    subject: &'static str,
    flag: Option<&'static str>,
}

fn recipe() -> Vec<Line> {
    let lines = include_str!("recipe.txt").lines().filter(|line| !line.starts_with('#'));
    let parse = |line: &'static str| {
        let mut words = line.split_whitespace();
        Some(Line { word: words.next()?, subject: words.next()?, flag: words.next() })
    };
    lines.filter_map(parse).collect()
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some()
}

/// What C++ and assembly have in common.
fn compiler(out: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    // Whatever the program's profile: without optimization calls take five times as long, and more of a signal handler's stack.
    build.opt_level(2).debug(true);
    build.cpp(true).cpp_link_stdlib(None).pic(true).warnings(false).cargo_metadata(false);
    build.include("freeway/src").include("freeway/include").include(out).define("FREEWAY_CHECKS", "0");
    if !is_set("CARGO_FEATURE_OVERRIDE") {
        build.define("FREEWAY_PREFIXED", "1");
    }
    // The same objects serve both C libraries, and few systems have a C++ compiler for musl.
    let arch = |triple: &str| variable(triple).split('-').next().map(str::to_owned);
    let is_chosen = env::vars_os().any(|(name, _)| {
        let name = name.to_string_lossy();
        name == "CXX" || name == "TARGET_CXX" || name.starts_with("CXX_")
    });
    if variable("CARGO_CFG_TARGET_ENV") == "musl" && arch("HOST") == arch("TARGET") && !is_chosen {
        build.compiler("c++");
    }
    build
}

/// Compiles `sources` and links them whole: nothing refers to the constructors among them.
fn archive(mut build: cc::Build, sources: &[String], name: &str) {
    if sources.is_empty() {
        return;
    }
    build.files(sources).compile(name);
    println!("cargo:rustc-link-lib=static:+whole-archive,-bundle={}", name);
}

fn main() {
    for path in ["build.rs", "recipe.txt", "extra", "freeway/src", "freeway/include"] {
        println!("cargo:rerun-if-changed={}", path);
    }
    let root = variable("CARGO_MANIFEST_DIR");
    println!("cargo:include={}/freeway/include", root);

    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let is_supported = variable("CARGO_CFG_TARGET_OS") == "linux"
        && variable("CARGO_CFG_TARGET_POINTER_WIDTH") == "64"
        && variable("CARGO_CFG_TARGET_ENDIAN") == "little"
        && (arch == "x86_64" || arch == "aarch64");
    // Elsewhere src/lib.rs says so. Documentation needs no library.
    if !is_supported || is_set("DOCS_RS") {
        return;
    }

    let out = variable("OUT_DIR");
    let out = Path::new(&out);
    println!("cargo:rustc-link-search=native={}", out.display());

    let recipe = recipe();
    let own_flag = format!("flag-{}", arch);
    let cxx = || {
        let mut build = compiler(out);
        for line in recipe.iter().filter(|line| line.word == "flag" || line.word == own_flag) {
            build.flag(line.subject);
        }
        build
    };

    let mut plain = vec!["extra/stay.cc".to_owned()];
    if is_set("CARGO_FEATURE_HARDEN") {
        plain.push("extra/harden.cc".to_owned());
    }
    let mut assembly = Vec::new();
    for line in recipe.iter().filter(|line| line.word == "source") {
        let path = format!("freeway/{}", line.subject.replace("{arch}", &arch));
        if path.ends_with(".S") {
            assembly.push(path);
        } else if let Some(flag) = line.flag {
            let mut build = cxx();
            build.flag(flag);
            let name = Path::new(line.subject).file_stem().unwrap().to_string_lossy();
            archive(build, std::slice::from_ref(&path), &format!("freeway_{}", name));
        } else {
            plain.push(path);
        }
    }
    archive(cxx(), &plain, "freeway_cxx");
    archive(compiler(out), &assembly, "freeway_asm");
}
