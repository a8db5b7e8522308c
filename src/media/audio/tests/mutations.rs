//! Whatever the bytes are: a clip or a sentence, soon.

use proptest::prelude::*;

use super::*;

/// Changes to a file: bytes set, and then a stretch cut out.
#[derive(Clone, Debug)]
struct Mutation {
    bytes: Vec<(prop::sample::Index, u8)>,
    cut: Option<(prop::sample::Index, usize)>,
    /// Whether changes go to the first 100 bytes, where headers are.
    near: bool,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let bytes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let cut = prop::option::of((any::<prop::sample::Index>(), 1_usize..64));
    (bytes, cut, any::<bool>()).prop_map(|(bytes, cut, near)| Mutation { bytes, cut, near })
}

impl Mutation {
    fn apply(&self, file: &[u8]) -> Vec<u8> {
        let mut file = file.to_vec();
        let reach = if self.near { file.len().min(100) } else { file.len() };
        for (place, byte) in &self.bytes {
            file[place.index(reach)] = *byte;
        }
        if let Some((place, length)) = self.cut {
            let start = place.index(reach);
            file.drain(start..(start + length).min(file.len()));
        }
        file
    }
}

/// Decodes in every way; nothing may panic, and what is given is finite and as long as the record says.
fn check(file: &[u8]) {
    for window in [Window::Whole, Window::First, Window::Last] {
        match decode_bytes(file, &spec(window, 0.5)) {
            Ok(clip) => {
                assert_eq!(clip.samples.len() as u64, clip.record.samples);
                assert!(clip.samples.len() <= 8001);
                assert!(clip.samples.iter().all(|sample| sample.is_finite()));
            }
            Err(error) => assert!(error.to_string().len() > 10),
        }
    }
}

/// Makes the checksums of the only frame right again. Its header has 8 bytes.
fn reseal(file: &mut [u8]) {
    let Some(frame) = file.get_mut(42..).filter(|frame| frame.len() > 10) else { return };
    let end = frame.len() - 2;
    frame[7] = checksums(&frame[..7], &[]).0;
    let crc16 = checksums(&[], &frame[..end]).1;
    frame[end..].copy_from_slice(&crc16.to_be_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_wav(mutation in mutation(), channels in 1_usize..4, bits in 1_u16..5) {
        let file = wav_of(&noise(channels, 300, u32::from(bits) * 8), bits * 8, 22_050);
        check(&mutation.apply(&file));
    }

    #[test]
    fn mutated_flac(mutation in mutation(), channels in 1_usize..4, variable: bool, total: bool) {
        let options = Options { block: 128, rate: 22_050, variable, total, ..Options::default() };
        let file = encode(&noise(channels, 700, 16), &options);
        check(&mutation.apply(&file));
    }

    /// Damage that checksums don't show reaches the decoder itself.
    #[test]
    fn mutated_flac_with_right_checksums(mutation in mutation(), channels in 1_usize..4, order in 0_u32..13) {
        let predictor = if order < 5 { Predictor::Fixed(order) } else { Predictor::Linear(order) };
        let options = Options { block: 512, predictor, ..Options::default() };
        let file = encode(&noise(channels, 512, 16), &options);
        let mut file = Mutation { cut: None, ..mutation }.apply(&file);
        reseal(&mut file);
        check(&file);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0_usize..4) {
        let start: &[u8] = [&b"RIFF\xff\xff\0\0WAVE"[..], b"fLaC\x80\0\0\x22", b"ID3", b""][kind];
        check(&[start, &bytes].concat());
    }
}
