// SPDX-License-Identifier: MIT
//! A plugin with Freeway in it is loaded by dlopen into a program with another malloc: its thread-local variables fit, and
//! nothing of it goes away while threads are in need of it.
#![cfg(all(feature = "std", not(target_env = "musl")))]
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Barrier;
use std::thread;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
    fn dlerror() -> *const c_char;
}
const RTLD_NOW: c_int = 2;

fn library() -> CString {
    // target/debug/deps/plugin-HASH -> target/debug/examples/libplugin.so
    let program = std::env::current_exe().unwrap();
    let path = program.parent().unwrap().parent().unwrap().join("examples/libplugin.so");
    assert!(path.exists(), "{}: built by `cargo test`, but not by `cargo test --test`", path.display());
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

#[test]
fn a_plugin_works_and_stays_when_it_is_closed() {
    let path = library();
    unsafe {
        let plugin = dlopen(path.as_ptr(), RTLD_NOW);
        assert!(!plugin.is_null(), "{:?}", CStr::from_ptr(dlerror()));
        let work = dlsym(plugin, b"plugin_work\0".as_ptr() as *const c_char);
        assert!(!work.is_null());
        let work: extern "C" fn(usize) -> usize = std::mem::transmute(work);
        let (ready, closed) = (Barrier::new(9), Barrier::new(9));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    assert_eq!(work(10_000), 10_000);
                    ready.wait();
                    closed.wait();
                    // Ends now, and what Freeway does at a thread's end is code of the plugin.
                });
            }
            ready.wait();
            assert_eq!(dlclose(plugin), 0);
            closed.wait();
        });
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains(path.to_str().unwrap()), "the plugin was unloaded");
        let again = dlopen(path.as_ptr(), RTLD_NOW);
        assert_eq!(dlsym(again, b"plugin_work\0".as_ptr() as *const c_char), work as *mut c_void);
        assert_eq!(work(100), 100);
    }
}
