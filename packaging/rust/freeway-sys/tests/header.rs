// SPDX-License-Identifier: MIT
//! What src/lib.rs declares is what freeway.h declares.
use freeway_sys::*;
use std::collections::BTreeSet;

const HEADER: &str = include_str!("../freeway/include/freeway/freeway.h");
const BINDINGS: &str = include_str!("../src/lib.rs");
/// They return structures of the C library's <malloc.h>; `freeway_stats` tells more.
const LEFT_OUT: [&str; 2] = ["freeway_mallinfo", "freeway_mallinfo2"];

/// `text` without comments.
fn code(text: &str) -> String {
    let mut pieces = text.split("/*");
    let mut code = pieces.next().unwrap().to_owned();
    for piece in pieces {
        code += piece.split_once("*/").expect("an open comment").1;
    }
    code
}

fn rust_type(c_type: &str) -> &str {
    match c_type {
        "size_t" => "usize",
        "uint64_t" => "u64",
        "ptrdiff_t" => "isize",
        "void*" => "*mut c_void",
        "const char*" => "*const c_char",
        other => other,
    }
}

/// Fields of a structure of the header: names and Rust's types.
fn fields(name: &str) -> Vec<(String, String)> {
    let code = code(HEADER);
    let (_, body) = code.split_once(&format!("typedef struct {} {{", name)).expect("no such structure");
    let (body, _) = body.split_once('}').unwrap();
    let split = |field: &str| {
        let (c_type, name) = field.trim().rsplit_once(' ').unwrap();
        (name.to_owned(), rust_type(c_type).to_owned())
    };
    body.split(';').filter(|field| !field.trim().is_empty()).map(split).collect()
}

fn same(name: &str, ours: &[(&str, &str)]) {
    let ours: Vec<_> = ours.iter().map(|(name, kind)| (name.to_string(), kind.to_string())).collect();
    assert_eq!(fields(name), ours, "{}", name);
}

#[test]
fn structures_have_the_fields_of_the_header_in_its_order() {
    same("freeway_stats_t", freeway_stats_t::FIELDS);
    same("freeway_audit_t", freeway_audit_t::FIELDS);
    same("freeway_explanation_t", freeway_explanation_t::FIELDS);
    same("freeway_sized_block_t", freeway_sized_block_t::FIELDS);
    same("freeway_block_info_t", freeway_block_info_t::FIELDS);
}

/// The functions declared in `text`: what stands before the last parenthesis of each piece.
fn names<'a>(pieces: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    pieces.map(|piece| piece.rsplit_once('(').unwrap().0.rsplit(|c| !is_of_name(c)).next().unwrap()).collect()
}

#[test]
fn every_function_of_the_header_is_declared() {
    let code = code(HEADER);
    let mut theirs = names(code.split(';').filter(|piece| piece.trim_end().ends_with("FREEWAY_NOEXCEPT")));
    assert!(theirs.contains("freeway_malloc") && theirs.contains("freeway_tag"), "{:?}", theirs);
    for name in LEFT_OUT {
        assert!(theirs.remove(name), "{} is left out, and not there", name);
    }
    let ours = names(BINDINGS.split("pub fn ").skip(1).map(|piece| piece.split(')').next().unwrap()));
    assert_eq!(theirs, ours);
}

#[test]
fn constants_have_the_values_of_the_header() {
    let code = code(HEADER);
    let value = |name: &str| -> u32 {
        let (_, rest) = code.split_once(&format!(" {} = ", name)).expect(name);
        rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let ours = [
        ("FREEWAY_NOT_OURS", FREEWAY_NOT_OURS),
        ("FREEWAY_SMALL_BLOCK", FREEWAY_SMALL_BLOCK),
        ("FREEWAY_LARGE_BLOCK", FREEWAY_LARGE_BLOCK),
        ("FREEWAY_GUARDED_BLOCK", FREEWAY_GUARDED_BLOCK),
        ("FREEWAY_FREE_MEMORY", FREEWAY_FREE_MEMORY),
        ("FREEWAY_METADATA", FREEWAY_METADATA),
        ("FREEWAY_STATE_UNKNOWN", FREEWAY_STATE_UNKNOWN),
        ("FREEWAY_LIVE", FREEWAY_LIVE),
        ("FREEWAY_FREE", FREEWAY_FREE),
    ];
    for (name, ours) in ours {
        assert_eq!(value(name), ours, "{}", name);
    }
}

#[test]
fn the_version_is_the_crates() {
    let version = unsafe { std::ffi::CStr::from_ptr(freeway_version()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn all_kinds_of_blocks_hold_what_is_written_to_them() {
    for size in [1, 16, 100, 4000, 40_000, 3 << 20, 300 << 20] {
        unsafe {
            let block = freeway_malloc(size) as *mut u8;
            assert!(!block.is_null());
            *block = 1;
            *block.add(size - 1) = 2;
            assert!(freeway_malloc_usable_size(block as *mut c_void) >= size);
            let block = freeway_realloc(block as *mut c_void, size + 100) as *mut u8;
            assert_eq!((*block, *block.add(size - 1)), (if size == 1 { 2 } else { 1 }, 2));
            freeway_free(block as *mut c_void);
        }
    }
    assert_eq!(unsafe { freeway_audit(std::ptr::null_mut(), 0) }, 0);
}

/// Which malloc the C library itself uses: strdup's.
#[test]
fn malloc_is_freeway_only_with_the_feature_override() {
    extern "C" {
        fn strdup(text: *const c_char) -> *mut c_char;
        fn free(block: *mut c_void);
    }
    unsafe {
        let copy = strdup(b"whose?\0".as_ptr() as *const c_char);
        let kind = freeway_explain(copy as *const c_void, std::ptr::null_mut(), 0);
        free(copy as *mut c_void);
        assert_eq!(kind, if cfg!(feature = "override") { FREEWAY_SMALL_BLOCK } else { FREEWAY_NOT_OURS });
    }
}
