use super::*;

/// A safetensors file of zeros with the given tensors.
fn write(path: &Path, tensors: &[(&str, &str, &[u64])]) {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, dtype, shape) in tensors {
        let size = shape.iter().product::<u64>() * if *dtype == "F32" { 4 } else { 2 };
        header.insert(
            (*name).to_owned(),
            serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}),
        );
        end += size;
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.resize(bytes.len() + end as usize, 0);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn both_layouts_of_names_become_the_published_one() {
    for (disk, published) in [
        ("audio_tower.conv1.weight", "audio_tower.conv1.weight"),
        ("model.audio_tower.conv1.weight", "audio_tower.conv1.weight"),
        ("model.multi_modal_projector.linear.bias", "multi_modal_projector.linear.bias"),
        (
            "model.language_model.layers.0.mlp.up_proj.weight",
            "language_model.model.layers.0.mlp.up_proj.weight",
        ),
        ("language_model.model.norm.weight", "language_model.model.norm.weight"),
        ("language_model.lm_head.weight", "language_model.lm_head.weight"),
        ("lm_head.weight", "language_model.lm_head.weight"),
        ("model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
    ] {
        assert_eq!(published_name(disk), published);
    }
}

#[test]
fn differences_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder.path().join("model.safetensors"),
        &[("a", "F32", &[2, 3]), ("b", "BF16", &[4]), ("x", "F16", &[])],
    );
    let checkpoint = Checkpoint::open(folder.path(), Names::Composite).unwrap();
    let expected = BTreeMap::from([
        ("a".to_owned(), vec![2, 3]),
        ("b".to_owned(), vec![2, 2]),
        ("c".to_owned(), vec![1]),
    ]);
    let report = checkpoint.compare(&expected, &["y"]);
    assert_eq!(report.missing, ["c"]);
    assert_eq!(report.unexpected, ["x"]);
    assert_eq!(report.misshapen, ["b: expected [2, 2], found [4]"]);
    assert_eq!(checkpoint.parameters(), 11);
    assert_eq!(checkpoint.dtypes(), [DType::F32, DType::BF16, DType::F16]);
}

#[test]
fn damaged_files_get_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let open = || Checkpoint::open(folder.path(), Names::Composite).unwrap_err().to_string();
    assert!(open().contains("hf download"), "{}", open());
    std::fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n").unwrap();
    assert!(open().contains("git lfs pull"), "{}", open());
    std::fs::write(&path, b"abc").unwrap();
    assert!(open().contains("it has 3 bytes"), "{}", open());
    std::fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    assert!(open().contains("no safetensors file"), "{}", open());
    std::fs::write(&path, 1000_u64.to_le_bytes()).unwrap();
    assert!(open().contains("cut short"), "{}", open());
    write(&path, &[("a", "F32", &[100])]);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    assert!(open().contains("cut short: its header promises"), "{}", open());
    write(&path, &[("a", "I8", &[100])]);
    assert!(open().contains("number format I8"), "{}", open());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(folder.path().join("pytorch_model.bin"), b"").unwrap();
    assert!(open().contains("pytorch_model.bin cannot be read"), "{}", open());
}

#[test]
fn shards_are_found_by_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("model.safetensors.index.json");
    let open = || Checkpoint::open(folder.path(), Names::Composite);
    std::fs::write(&index, r#"{"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}"#).unwrap();
    write(&folder.path().join("m-1.safetensors"), &[("a", "F32", &[2])]);
    let error = open().unwrap_err().to_string();
    assert!(error.contains("m-2.safetensors is missing") && error.contains("2 shards"), "{error}");
    write(&folder.path().join("m-2.safetensors"), &[("b", "F32", &[3])]);
    let checkpoint = open().unwrap();
    assert_eq!((checkpoint.parameters(), checkpoint.files().len()), (5, 2));
    write(&folder.path().join("m-2.safetensors"), &[("a", "F32", &[3])]);
    assert!(open().unwrap_err().to_string().contains("twice"));
    std::fs::write(&index, r#"{"weight_map":{"a":"../m-1.safetensors"}}"#).unwrap();
    assert!(open().unwrap_err().to_string().contains("no safetensors file of this folder"));
}

#[test]
fn the_digest_follows_what_decides_answers() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("model.safetensors");
    let digest = || Checkpoint::open(folder.path(), Names::Composite).unwrap().digest().unwrap();
    write(&weights, &[("a", "F32", &[4 << 20]), ("b", "F32", &[100]), ("c", "F32", &[4 << 20])]);
    let first = digest();
    assert_eq!(first, digest());
    std::fs::write(folder.path().join("README.md"), "x").unwrap();
    assert_eq!(first, digest());
    std::fs::write(folder.path().join("generation_config.json"), "{}").unwrap();
    let second = digest();
    assert_ne!(first, second);
    // A change in the last number, and one in a small tensor in the middle, both in a file that is sampled.
    let bytes = std::fs::read(&weights).unwrap();
    assert!(bytes.len() as u64 > WHOLE);
    for at in [bytes.len() - 1, bytes.len() - (16 << 20) - 200] {
        let mut changed = bytes.clone();
        changed[at] = 1;
        std::fs::write(&weights, changed).unwrap();
        assert_ne!(second, digest(), "byte {at}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_header_reader_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = (bytes.len() as u64 / 2).to_le_bytes().to_vec();
        file.extend(bytes);
        std::fs::write(folder.path().join("model.safetensors"), file).unwrap();
        let _ = Checkpoint::open(folder.path(), Names::Composite);
    }
}
