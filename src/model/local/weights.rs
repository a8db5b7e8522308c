//! Weights in safetensors files: what is there (from the headers alone), whether it is what the config asks for, a
//! digest for the model's identity, and the map into memory.
//!
//! Of models of several parts two layouts of names are read: the published one (`audio_tower.*`,
//! `multi_modal_projector.*`, `language_model.model.*`, `language_model.lm_head.weight`) and that of transformers 5
//! (`model.` in front and `lm_head.weight`). Inside this program the published names are used. This module must not
//! know layers.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};
use serde_json::Value;

use super::config::{self, NEEDED};
use super::error::{LoadError, TensorReport};
use crate::types::Digest;

/// How a file begins that git-lfs left in place of a large one.
pub(super) const LFS_MARK: &[u8] = b"version https://git-lfs";

/// What to do about it.
pub(super) const LFS_SENTENCE: &str = "is a git-lfs pointer, not the file itself: fetch it with `git lfs pull`, or download it from the \
     model's page";

/// Headers larger than this are refused, as the reference implementation does.
const LARGEST_HEADER: u64 = 100 << 20;

/// Files up to this size go into the digest whole.
const WHOLE: u64 = 16 << 20;

/// Of larger files each tensor gives three blocks of this size: its first bytes, its middle and its last.
const BLOCK: u64 = 4 << 10;

/// The small files that decide a model's answers, in the order of the digest.
const SMALL_FILES: [&str; 8] = [
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
    INDEX,
];

/// One tensor as a header describes it.
#[derive(Clone, Debug)]
struct Entry {
    disk_name: String,
    dtype: DType,
    shape: Vec<usize>,
}

/// One safetensors file, known by its header.
#[derive(Clone, Debug)]
struct Shard {
    path: PathBuf,
    name: String,
    bytes: u64,
    data_start: u64,
    header: Digest,
    /// Where the data of each tensor begin and end, from the start of the file, in the file's order.
    tensors: Vec<(u64, u64)>,
}

/// How the tensors of a checkpoint are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// As on disk.
    Plain,
    /// By the published names of models of several parts; see above.
    Composite,
}

/// The weights of a folder, known by their headers: nothing but headers has been read.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    folder: PathBuf,
    shards: Vec<Shard>,
    entries: BTreeMap<String, Entry>,
}

impl Checkpoint {
    /// Reads the headers of all weights files of a folder.
    pub(super) fn open(folder: &Path, naming: Names) -> Result<Self, LoadError> {
        let names = shard_names(folder)?;
        let mut checkpoint =
            Self { folder: folder.to_path_buf(), shards: Vec::new(), entries: BTreeMap::new() };
        for name in names {
            let path = folder.join(&name);
            let (shard, entries) = read_header(&path, name)?;
            for entry in entries {
                let name = match naming {
                    Names::Plain => entry.disk_name.clone(),
                    Names::Composite => published_name(&entry.disk_name),
                };
                let clash = checkpoint.entries.insert(name, entry);
                if let Some(clash) = clash {
                    return Err(LoadError::Malformed {
                        path,
                        problem: format!("tensor {} is in the checkpoint twice", clash.disk_name),
                    });
                }
            }
            checkpoint.shards.push(shard);
        }
        Ok(checkpoint)
    }

    /// How the tensors differ from those `expected`, given by published name and shape. Buffers that older
    /// versions saved and no version reads are passed over, and so are tensors whose names begin as one of `harmless`.
    pub(super) fn compare(&self, expected: &BTreeMap<String, Vec<usize>>, harmless: &[&str]) -> TensorReport {
        let found = self.entries.iter().map(|(name, entry)| (name.as_str(), &entry.shape[..]));
        compare(found, expected, harmless)
    }

    /// Numbers in all tensors.
    pub(super) fn parameters(&self) -> u64 {
        self.entries.values().map(|entry| entry.shape.iter().map(|&n| n as u64).product::<u64>()).sum()
    }

    /// The number formats on disk, the commonest first.
    pub(super) fn dtypes(&self) -> Vec<DType> {
        let mut counts: Vec<(DType, u64)> = Vec::new();
        for entry in self.entries.values() {
            let numbers = entry.shape.iter().map(|&n| n as u64).product::<u64>();
            match counts.iter_mut().find(|(dtype, _)| *dtype == entry.dtype) {
                Some((_, count)) => *count += numbers,
                None => counts.push((entry.dtype, numbers)),
            }
        }
        counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        counts.into_iter().map(|(dtype, _)| dtype).collect()
    }

    /// The commonest number format on disk.
    pub(super) fn dtype(&self) -> DType {
        self.dtypes().first().copied().unwrap_or(DType::F32)
    }

    /// Bytes of the weights files.
    pub(super) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// The weights files' names.
    pub(super) fn files(&self) -> Vec<String> {
        self.shards.iter().map(|shard| shard.name.clone()).collect()
    }

    /// The digest of the model's files: the content of every small file that decides answers (config, generation
    /// config, preprocessor config, tokenizer and its config, chat template, shard index), and of each weights
    /// file its name, size, the blake3 of its header, and of every tensor the first, middle and last 4 KiB (all
    /// data of a file of at most 16 MiB). Cheap for any size: training that touches a tensor changes nearly all of
    /// its numbers, so it shows even where a single tensor was trained. A few bytes damaged elsewhere do not.
    pub(super) fn digest(&self) -> Result<Digest, LoadError> {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(b"harness local model 1");
        for name in SMALL_FILES {
            let path = self.folder.join(name);
            if path.exists() {
                let (_, bytes) = config::read_file(&self.folder, name)?;
                field(name.as_bytes());
                field(&bytes);
            }
        }
        for shard in &self.shards {
            field(shard.name.as_bytes());
            field(&shard.bytes.to_le_bytes());
            field(&shard.header.0);
            sample_blocks(shard, &mut field)
                .map_err(|source| LoadError::Unreadable { path: shard.path.clone(), source })?;
        }
        Ok(Digest(*hasher.finalize().as_bytes()))
    }

    /// Maps the files into memory; tensors are made from them one by one, in `dtype` on `device`.
    pub(super) fn map(&self, dtype: DType, device: &Device) -> Result<Weights, LoadError> {
        let paths: Vec<&PathBuf> = self.shards.iter().map(|shard| &shard.path).collect();
        #[expect(unsafe_code, reason = "candle offers large files only as a memory map")]
        // SAFETY: a map is undefined behaviour only if the file is changed or cut while it is mapped. The map is
        // dropped when loading ends; the files are a model that the user gave to be read, and this program never
        // writes to them.
        let files = unsafe { MmapedSafetensors::multi(&paths) }.map_err(|error| self.failed(&error))?;
        let names =
            self.entries.iter().map(|(name, entry)| (name.clone(), entry.disk_name.clone())).collect();
        Ok(Weights { source: Box::new(files), names, dtype, device: device.clone() })
    }

    /// A failure of candle while this checkpoint is loaded.
    pub(super) fn failed(&self, error: &candle_core::Error) -> LoadError {
        LoadError::Weights { folder: self.folder.clone(), problem: super::first_line(error) }
    }
}

/// How found tensors differ from expected ones, both by name and shape.
pub(super) fn compare<'a>(
    found: impl IntoIterator<Item = (&'a str, &'a [usize])>,
    expected: &BTreeMap<String, Vec<usize>>,
    harmless: &[&str],
) -> TensorReport {
    let found: BTreeMap<&str, &[usize]> = found.into_iter().collect();
    let mut report = TensorReport::default();
    for (name, shape) in expected {
        match found.get(name.as_str()) {
            None => report.missing.push(name.clone()),
            Some(found) if found != &&shape[..] => {
                report.misshapen.push(format!("{name}: expected {shape:?}, found {found:?}"));
            }
            Some(_) => {}
        }
    }
    let passed = |name: &str| {
        name.ends_with("rotary_emb.inv_freq") || harmless.iter().any(|start| name.starts_with(start))
    };
    report.unexpected = found
        .keys()
        .filter(|name| !expected.contains_key(**name) && !passed(name))
        .map(|&name| name.to_owned())
        .collect();
    report
}

/// What tensors are read from.
pub(super) trait Source {
    /// A tensor by the name that it has on disk, in any number format, on the CPU.
    fn load(&self, name: &str) -> candle_core::Result<Tensor>;
}

impl Source for MmapedSafetensors {
    fn load(&self, name: &str) -> candle_core::Result<Tensor> {
        Self::load(self, name, &Device::Cpu)
    }
}

/// Weights that can be read.
pub(super) struct Weights {
    source: Box<dyn Source>,
    /// Names on disk by published name.
    names: HashMap<String, String>,
    dtype: DType,
    device: Device,
}

impl Weights {
    /// Weights from a source, with their names on disk by published name.
    pub(super) fn new(
        source: Box<dyn Source>,
        names: HashMap<String, String>,
        dtype: DType,
        device: &Device,
    ) -> Self {
        Self { source, names, dtype, device: device.clone() }
    }

    /// A tensor by its published name, in the model's number format on its device.
    pub(super) fn get(&self, name: &str) -> candle_core::Result<Tensor> {
        let disk_name = self.names.get(name).map_or(name, String::as_str);
        let tensor = self.source.load(disk_name)?;
        // Converted before it travels where that makes it smaller.
        if self.dtype.size_in_bytes() <= tensor.dtype().size_in_bytes() {
            tensor.to_dtype(self.dtype)?.to_device(&self.device)
        } else {
            tensor.to_device(&self.device)?.to_dtype(self.dtype)
        }
    }

    /// A tensor, or nothing where the checkpoint has none of that name.
    pub(super) fn find(&self, name: &str) -> candle_core::Result<Option<Tensor>> {
        self.names.contains_key(name).then(|| self.get(name)).transpose()
    }

    /// The device that tensors go to.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// The number format that tensors get.
    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }
}

/// The published name of a tensor that a checkpoint may call otherwise.
fn published_name(disk_name: &str) -> String {
    let name = match disk_name.strip_prefix("model.") {
        Some(rest)
            if ["audio_tower.", "vision_tower.", "multi_modal_projector.", "language_model."]
                .iter()
                .any(|part| rest.starts_with(part)) =>
        {
            rest
        }
        _ => disk_name,
    };
    if name == "lm_head.weight" {
        return "language_model.lm_head.weight".to_owned();
    }
    match name.strip_prefix("language_model.") {
        Some(rest) if !rest.starts_with("model.") && !rest.starts_with("lm_head.") => {
            format!("language_model.model.{rest}")
        }
        _ => name.to_owned(),
    }
}

/// The file that says which tensor is in which shard.
const INDEX: &str = "model.safetensors.index.json";

/// The weights files of a folder, in order.
fn shard_names(folder: &Path) -> Result<Vec<String>, LoadError> {
    if folder.join("model.safetensors").exists() {
        return Ok(vec!["model.safetensors".to_owned()]);
    }
    if !folder.join(INDEX).exists() {
        let remedy = if folder.join("pytorch_model.bin").exists()
            || folder.join("pytorch_model.bin.index.json").exists()
        {
            "pytorch_model.bin cannot be read; download or convert to safetensors".to_owned()
        } else {
            NEEDED.to_owned()
        };
        return Err(LoadError::FileMissing {
            folder: folder.to_path_buf(),
            file: "model.safetensors (or model.safetensors.index.json with its shards)".to_owned(),
            remedy,
        });
    }
    let index: Value = config::read_json(folder, INDEX)?;
    let malformed = |problem: String| LoadError::Malformed { path: folder.join(INDEX), problem };
    let map = index
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| malformed("has no object `weight_map`".to_owned()))?;
    let mut names = Vec::new();
    for (tensor, file) in map {
        let file =
            file.as_str().ok_or_else(|| malformed(format!("weight_map names no file for {tensor}")))?;
        if file.contains(['/', '\\']) || !file.ends_with(".safetensors") {
            return Err(malformed(format!(
                "weight_map names `{file}`, which is no safetensors file of this folder"
            )));
        }
        if !names.iter().any(|known| known == file) {
            names.push(file.to_owned());
        }
    }
    names.sort();
    let absent: Vec<&str> =
        names.iter().filter(|name| !folder.join(name).exists()).map(String::as_str).collect();
    if !absent.is_empty() {
        return Err(LoadError::FileMissing {
            folder: folder.to_path_buf(),
            file: absent.join(", "),
            remedy: format!("{INDEX} names {} shards; download the missing ones", names.len()),
        });
    }
    Ok(names)
}

/// Reads and checks the header of a safetensors file: 8 bytes of length, JSON, data.
fn read_header(path: &Path, name: String) -> Result<(Shard, Vec<Entry>), LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_path_buf(), source };
    let malformed = |problem: String| LoadError::Malformed { path: path.to_path_buf(), problem };
    let mut file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let mut start = Vec::new();
    (&mut file).take(64).read_to_end(&mut start).map_err(unreadable)?;
    if start.starts_with(LFS_MARK) {
        return Err(malformed(LFS_SENTENCE.to_owned()));
    }
    let length = start
        .first_chunk::<8>()
        .map(|length| u64::from_le_bytes(*length))
        .ok_or_else(|| malformed(format!("is no safetensors file: it has {bytes} bytes")))?;
    if length > LARGEST_HEADER {
        return Err(malformed(format!("is no safetensors file: its header would have {length} bytes")));
    }
    let data_start = length + 8;
    if data_start > bytes {
        return Err(malformed(format!(
            "is cut short: its header alone takes {data_start} bytes and the file has {bytes}; download it again"
        )));
    }
    let mut header = vec![0; length as usize];
    file.seek(SeekFrom::Start(8)).and_then(|_| file.read_exact(&mut header)).map_err(unreadable)?;
    let json: serde_json::Map<String, Value> = serde_json::from_slice(&header)
        .map_err(|error| malformed(format!("is no safetensors file: its header is not JSON ({error})")))?;
    let mut entries = Vec::with_capacity(json.len());
    let (mut data, mut tensors) = (0, Vec::with_capacity(json.len()));
    for (tensor, value) in json {
        if tensor == "__metadata__" {
            continue;
        }
        let (entry, (from, to)) =
            read_entry(&tensor, &value).map_err(|problem| malformed(format!("tensor {tensor} {problem}")))?;
        data = data.max(to);
        tensors.push((data_start.saturating_add(from), data_start.saturating_add(to)));
        entries.push(entry);
    }
    let promised = data_start.saturating_add(data);
    if promised > bytes {
        return Err(malformed(format!(
            "is cut short: its header promises {promised} bytes and the file has {bytes}; download it again"
        )));
    }
    tensors.sort_unstable();
    let header = Digest::of(&header);
    Ok((Shard { path: path.to_path_buf(), name, bytes, data_start, header, tensors }, entries))
}

/// One tensor of a header, and where its data begin and end, from the start of all data.
fn read_entry(name: &str, value: &Value) -> Result<(Entry, (u64, u64)), String> {
    let dtype = match value.get("dtype").and_then(Value::as_str) {
        Some("F32") => DType::F32,
        Some("F16") => DType::F16,
        Some("BF16") => DType::BF16,
        other => {
            return Err(format!(
                "has the number format {}; F32, F16 and BF16 can be read (quantised checkpoints cannot)",
                other.unwrap_or("(none)")
            ));
        }
    };
    let numbers = |key: &str| {
        value
            .get(key)
            .and_then(Value::as_array)
            .and_then(|list| list.iter().map(Value::as_u64).collect::<Option<Vec<_>>>())
            .ok_or_else(|| format!("has no list of numbers `{key}`"))
    };
    let shape = numbers("shape")?;
    let offsets = numbers("data_offsets")?;
    let [from, to] = offsets[..] else { return Err("has no pair of data_offsets".to_owned()) };
    let size = shape
        .iter()
        .try_fold(dtype.size_in_bytes() as u64, |size, &n| size.checked_mul(n))
        .unwrap_or(u64::MAX);
    if to.checked_sub(from) != Some(size) {
        return Err(format!("has the shape {shape:?}, but its data_offsets {offsets:?} hold another size"));
    }
    let shape = shape.into_iter().map(|n| n as usize).collect();
    Ok((Entry { disk_name: name.to_owned(), dtype, shape }, (from, to)))
}

/// Gives the parts of a weights file that go into the digest to `field`, one after the other.
fn sample_blocks(shard: &Shard, mut field: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut file = File::open(&shard.path)?;
    let mut block = Vec::new();
    let mut give = |from: u64, to: u64| -> std::io::Result<()> {
        block.resize(to.saturating_sub(from) as usize, 0);
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block)?;
        field(&block);
        Ok(())
    };
    if shard.bytes <= WHOLE {
        return give(shard.data_start, shard.bytes);
    }
    for &(from, to) in &shard.tensors {
        let middle = from + (to - from) / 2;
        give(from, to.min(from + BLOCK))?;
        give(middle, to.min(middle + BLOCK))?;
        give(from.max(to.saturating_sub(BLOCK)), to)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "weights_tests.rs"]
mod tests;
