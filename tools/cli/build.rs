//! Links `memfold` at a fixed address where that makes it start faster.
//!
//! Agents start `memfold` thousands of times a day. A position-independent executable has 30,000
//! relocations, which the dynamic linker applies at every start, and each page it touches is
//! copied. At a fixed address there are none. Libraries, stack and heap stay randomized. Other
//! systems need position-independent executables or gain nothing.

use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    writeln!(io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let target = |key: &str| std::env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        writeln!(io::stdout(), "cargo::rustc-link-arg-bins=-no-pie")?;
    }
    Ok(())
}
