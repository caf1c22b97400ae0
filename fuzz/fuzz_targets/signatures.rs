//! Requests, through the verifier of signatures.
#![no_main]

#[path = "../checks/signatures.rs"]
mod signatures;

libfuzzer_sys::fuzz_target!(|request: &[u8]| signatures::check(request));
