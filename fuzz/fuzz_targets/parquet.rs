#![no_main]

use memfold_tests::fuzz::fuzz_target;

// Decoders of others may panic; their callers make errors of it. What they do not catch ends the process all the same.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| (fuzz_target("parquet").run)(bytes)
);
