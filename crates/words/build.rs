//! Ranks the built-in Chinese words. A process would take a tenth of a second and 60 MB for it.

#[cfg(feature = "zh")]
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "src/zh/ranked.rs"]
mod ranked;
#[cfg(feature = "zh")]
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "src/zh/trie.rs"]
mod trie;

fn main() -> std::io::Result<()> {
    ["build.rs", "assets/words.txt.gz", "src/zh/ranked.rs", "src/zh/trie.rs"]
        .iter()
        .for_each(|path| println!("cargo::rerun-if-changed={path}"));
    #[cfg(feature = "zh")]
    {
        let text = ranked::unpacked();
        let words = ranked::Ranked::of(ranked::entries(&text)).expect("they are not too many");
        let output = std::env::var_os("OUT_DIR").expect("Cargo sets it");
        std::fs::write(std::path::Path::new(&output).join("ranked"), words.to_bytes())?;
    }
    Ok(())
}
