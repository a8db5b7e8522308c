//! Times store and index of Wikipedia pages on a made-up dump: `cargo run --release --example bench_wiki -- DIR [PAGES]
//! [JOBS]` writes the dump into DIR where it is not there, builds both, and looks things up.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::unwrap_used, reason = "a failure is the report")]

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use harness::wiki::{Index, Store, StoreBuilder, build_index, dump};

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, small ones more often, as characters are in texts.
    fn skewed(&mut self, n: u64) -> u64 {
        let x = (self.next() % 1_000_000) as f64 / 1e6;
        ((n as f64).powf(x) - 1.0) as u64
    }

    fn text(&mut self, characters: u64) -> String {
        let character =
            |numbers: &mut Self| char::from_u32(0x4e00 + numbers.skewed(6000) as u32).unwrap_or('一');
        (0..characters).map(|_| character(self)).collect()
    }
}

fn title(page: u64) -> String {
    let mut numbers = Numbers(page);
    let characters = 2 + numbers.next() % 5;
    format!("{}{}", numbers.text(characters), page)
}

/// 50,000 pages a file, as published: about a dozen sentences of 20 to 60 characters each.
fn write_dump(folder: &Path, pages: u64) -> Vec<PathBuf> {
    std::fs::create_dir_all(folder).unwrap();
    let mut files = Vec::new();
    for first in (0..pages).step_by(50_000) {
        let path = folder.join(format!("wiki-{:03}.jsonl", first / 50_000 + 1));
        if !path.is_file() {
            let part = path.with_extension("part");
            let mut out = BufWriter::new(File::create(&part).unwrap());
            for page in first..pages.min(first + 50_000) {
                let mut numbers = Numbers(page ^ 0x00ab_cdef);
                let title = title(page);
                let count = 2 + numbers.next() % 20;
                let mut made = |line| {
                    let characters = 20 + numbers.next() % 40;
                    format!("{line}\t{}。\t{title}", numbers.text(characters))
                };
                let lines: Vec<String> = (0..count).map(&mut made).collect();
                let row = serde_json::json!({"id": title, "text": "", "lines": lines.join("\n")});
                writeln!(out, "{row}").unwrap();
            }
            out.into_inner().unwrap().sync_all().unwrap();
            std::fs::rename(&part, &path).unwrap();
        }
        files.push(path);
    }
    files
}

/// Seconds of processor time that all threads took so far, where the system says: on a busy machine the clock tells
/// little.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| fields.split_whitespace().nth(at).and_then(|text| text.parse::<f64>().ok());
    (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / 100.0
}

/// Clock and processor time since.
struct Since(Instant, f64);

impl Since {
    fn now() -> Self {
        Self(Instant::now(), cpu())
    }

    fn rate(&self, megabytes: f64) -> String {
        let (seconds, used) = (self.0.elapsed().as_secs_f64(), cpu() - self.1);
        format!(
            "{seconds:.1} s, {used:.1} s of processor time: {:.1} MB/s, {:.1} MB/s a core",
            megabytes / seconds,
            megabytes / used.max(0.01)
        )
    }

    fn each(&self, n: u32) -> String {
        let (seconds, used) = (self.0.elapsed().as_secs_f64(), cpu() - self.1);
        let n = f64::from(n);
        format!("{:.2} microseconds each, {:.2} of processor time", seconds / n * 1e6, used / n * 1e6)
    }
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder for the dump and the files"));
    let pages: u64 = arguments.next().map_or(1_200_000, |text| text.parse().unwrap());
    let jobs: NonZeroUsize = arguments.next().map_or(NonZeroUsize::MIN, |text| text.parse().unwrap());
    let files = write_dump(&folder.join("wiki-pages"), pages);
    let bytes: u64 = files.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
    let megabytes = bytes as f64 / 1e6;
    println!("dump: {pages} pages, {megabytes:.0} MB");

    let path = folder.join("pages.bin");
    let begun = Since::now();
    let mut builder =
        StoreBuilder::new(BufWriter::with_capacity(1 << 20, File::create(&path).unwrap())).unwrap();
    for file in &files {
        let reader = BufReader::with_capacity(1 << 20, File::open(file).unwrap());
        dump::each_line(reader, |_, line| {
            let page = dump::DumpPage::read(line.unwrap()).unwrap();
            builder.add(&page.id, &page.sentences()).map(|_| ())
        })
        .unwrap();
    }
    let (_, facts) = builder.finish("bench").unwrap();
    println!("store: {}; {facts:?}; peak {}", begun.rate(megabytes), memory());

    let store = Store::open(&path).unwrap();
    let path = folder.join("index.bin");
    let begun = Since::now();
    let facts = build_index(&store, &path, jobs, &|_| ()).unwrap();
    println!("index: {} on {jobs} threads; {facts:?}; peak {}", begun.rate(megabytes), memory());

    let mut numbers = Numbers(7);
    for round in ["first", "second"] {
        let mut found = 0;
        let lookups = 200_000;
        let begun = Since::now();
        for _ in 0..lookups {
            found += usize::from(store.sentence(&title(numbers.next() % pages), 1).unwrap().is_some());
        }
        println!("{round} {lookups} sentences: {}, {found} found", begun.each(lookups));
    }

    let index = Index::open(&path, &store).unwrap();
    let mut searcher = index.searcher();
    let queries = 300;
    let mut hits = 0;
    let begun = Since::now();
    for _ in 0..queries {
        let page = numbers.next() % pages;
        let page = store.by_number(page as u32).unwrap().unwrap();
        let claim: String = page.sentence(1).unwrap_or_default().chars().take(34).collect();
        let found = searcher.search(&claim, 10).unwrap();
        let title = |hit: &harness::wiki::Hit| store.by_number(hit.page).unwrap().unwrap().title().to_owned();
        hits += usize::from(found.first().is_some_and(|hit| title(hit) == page.title()));
    }
    println!(
        "{queries} claims: {}, the page itself first for {hits}; peak {}",
        begun.each(queries),
        memory()
    );
}
