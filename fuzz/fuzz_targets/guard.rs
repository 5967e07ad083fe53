#![no_main]

use memfold_tests::fuzz::fuzz_target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (fuzz_target("guard").run)(bytes));
