//! Consolidates a store: `cargo run --package memfold --example consolidate -- brain.db`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a store: brain.db")?;
    let run = memfold::Memfold::open(path)?.plan()?.apply()?;
    std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{run:#?}\n"))?;
    Ok(())
}
