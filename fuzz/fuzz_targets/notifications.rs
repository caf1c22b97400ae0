//! Bodies of deliveries, through the parser.
#![no_main]

#[path = "../checks/notifications.rs"]
mod notifications;

libfuzzer_sys::fuzz_target!(|body: &[u8]| notifications::check(body));
