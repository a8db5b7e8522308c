//! Times the local Qwen2-Audio on random weights of a middle size: encoder, prefill and decoding.
//!
//! `cargo run --release --example bench_local -- FOLDER [REPETITIONS] [DEVICE] [DTYPE] [ONLY]`
//!
//! With ONLY, only the figures are taken whose names hold that text. FOLDER is made with random weights (257 M parameters, 1 GB) if it is not there: an audio encoder of 6 layers 512 wide, a
//! text model of 12 layers 896 wide and a vocabulary of 32,000. Every figure is the least of all repetitions, in seconds of
//! wall time and of processor time over all threads: on a busy machine only the latter says something.
#![cfg_attr(feature = "local", expect(clippy::print_stdout, reason = "a program that prints its figures"))]

#[cfg(feature = "local")]
fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    bench::run()
}

#[cfg(not(feature = "local"))]
fn main() {}

#[cfg(feature = "local")]
mod bench {
    use std::collections::HashMap;
    use std::error::Error;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::time::Instant;

    use candle_core::{Device, Tensor};
    use harness::media::audio::mel::MelExtractor;
    use harness::model::Prepared;
    use harness::model::local::qwen2_audio::{Expanded, Qwen2Audio};
    use harness::types::{AudioContent, Digest, Generation, PreparedAudio, Prompt};
    use serde_json::{Value, json};

    const VOCABULARY: u32 = 32_000;
    const AUDIO: u32 = 31_990;

    pub(super) fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut arguments = std::env::args().skip(1);
        let folder = PathBuf::from(arguments.next().ok_or("give a folder")?);
        let repetitions: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
        let device = arguments.next().unwrap_or_else(|| "cpu".to_owned());
        let dtype = arguments.next().unwrap_or_else(|| "auto".to_owned());
        let only = arguments.next().unwrap_or_default();
        if !folder.join("config.json").exists() {
            make(&folder)?;
        }
        let (device, name) = device.parse::<harness::model::local::device::DeviceChoice>()?.open()?;
        let start = Instant::now();
        let mut model = Qwen2Audio::load(&folder, dtype.parse()?, &device)?;
        let threads = candle_core::utils::get_num_threads();
        println!("device {name}, {threads} threads, loaded in {:.2} s", start.elapsed().as_secs_f64());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        pool.install(|| measure(&mut model, repetitions, &only))
    }

    fn measure(
        model: &mut Qwen2Audio,
        repetitions: usize,
        only: &str,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let wave: Vec<f32> = (0..480_000).map(|i| 0.1 * (i as f32 * 0.17).sin()).collect();
        let extractor = MelExtractor::new(128)?;
        time(only, "log-mel of 30 s", repetitions, || {
            extractor.compute(&wave)?;
            Ok(())
        })?;
        for seconds in [4, 30] {
            let mel = extractor.compute(&wave[..seconds * 16_000])?;
            time(only, &format!("encoder, {seconds} s"), repetitions, || {
                model.audio_vectors(&mel)?;
                Ok(())
            })?;
        }
        for tokens in [16, 32, 64, 128, 800] {
            let prompt = [(text(tokens), Vec::new())];
            time(only, &format!("prefill of {tokens} tokens"), repetitions, || {
                model.next_logits(&prompt)?;
                Ok(())
            })?;
        }
        let mel = Arc::new(extractor.compute(&wave)?);
        let mut clips = 0_u64;
        let mut clip = || {
            // A new digest each time, so that nothing is remembered.
            clips += 1;
            PreparedAudio {
                digest: Digest::of(&clips.to_le_bytes()),
                content: AudioContent::Features(Arc::clone(&mel)),
            }
        };
        time(only, "prefill of 800 tokens, 750 of them audio, encoder included", repetitions, || {
            model.next_logits(&[(audio(20, 30), vec![clip()])])?;
            Ok(())
        })?;
        for (name, tokens, rows) in
            [("64", 64, 1), ("800", 800, 1), ("64, batch of 8", 64, 8), ("800, batch of 8", 800, 8)]
        {
            let mut seconds = [0.0; 2];
            for (seconds, new) in seconds.iter_mut().zip([1, 33]) {
                let requests: Vec<Prepared> = (0..rows).map(|row| request(tokens, new, row)).collect();
                *seconds = time(only, &format!("{new} new tokens after {name}"), repetitions.min(3), || {
                    model.answer(&requests, true)?;
                    Ok(())
                })?;
            }
            let rate = f64::from(32 * rows) / (seconds[1] - seconds[0]);
            if rate.is_finite() {
                println!("decoding after {name}: {rate:.1} tokens/s");
            }
        }
        Ok(())
    }

    /// Prints and gives the least wall time.
    fn time(
        only: &str,
        name: &str,
        repetitions: usize,
        mut work: impl FnMut() -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<f64, Box<dyn Error + Send + Sync>> {
        if !name.contains(only) {
            return Ok(f64::NAN);
        }
        let (mut wall, mut processor) = (f64::MAX, f64::MAX);
        for _ in 0..=repetitions {
            let (start, before) = (Instant::now(), processor_seconds());
            work()?;
            wall = wall.min(start.elapsed().as_secs_f64());
            processor = processor.min(processor_seconds() - before);
        }
        println!("{name}: {wall:.4} s, {processor:.2} processor s");
        Ok(wall)
    }

    /// Processor time of this process so far, where the system shows it in `/proc`.
    fn processor_seconds() -> f64 {
        let read = || {
            let text = std::fs::read_to_string("/proc/self/stat").ok()?;
            let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
            let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
            Some(ticks / 100.0)
        };
        read().unwrap_or(f64::NAN)
    }

    /// Ids that differ from row to row, so that rows share nothing.
    fn ids(count: usize, row: u32) -> Vec<u32> {
        (0..count as u32).map(|i| (i * 7919 + row * 104_729 + 13) % 31_000).collect()
    }

    fn text(tokens: usize) -> Expanded {
        Expanded { ids: ids(tokens, 0), places: Vec::new() }
    }

    fn audio(before: usize, after: usize) -> Expanded {
        let mut expanded = text(before);
        expanded.places.push((before, 750));
        expanded.ids.extend([AUDIO; 750]);
        expanded.ids.extend(ids(after, 1));
        expanded
    }

    fn request(tokens: usize, max_new_tokens: usize, row: u32) -> Prepared {
        let words: Vec<String> = ids(tokens, row).iter().map(|id| format!("t{id}")).collect();
        Prepared {
            key: Digest::of(&row.to_le_bytes()),
            prompt: Prompt::Raw { text: words.join(" "), audio: Vec::new() },
            audio: Vec::new(),
            images: Vec::new(),
            generation: Generation { max_new_tokens, ..Generation::default() },
            seed: 0,
            exact_seed: false,
        }
    }

    /// Writes a checkpoint of random weights.
    fn make(folder: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
        std::fs::create_dir_all(folder)?;
        let mut vocabulary: serde_json::Map<String, Value> =
            (0..VOCABULARY).map(|id| (format!("t{id}"), id.into())).collect();
        vocabulary.retain(|_, id| id.as_u64() != Some(u64::from(AUDIO)));
        vocabulary.insert("<|AUDIO|>".to_owned(), AUDIO.into());
        let write = |name: &str, value: Value| std::fs::write(folder.join(name), value.to_string());
        write(
            "tokenizer.json",
            json!({"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
                "decoder": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
                "added_tokens": [{"id": AUDIO, "content": "<|AUDIO|>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}}),
        )?;
        write("tokenizer_config.json", json!({"eos_token": "t1", "chat_template": "{{ messages }}"}))?;
        write("preprocessor_config.json", json!({"feature_size": 128}))?;
        write(
            "config.json",
            json!({"model_type": "qwen2_audio", "audio_token_index": AUDIO,
                "audio_config": {"d_model": 512, "encoder_layers": 6, "encoder_attention_heads": 8,
                    "encoder_ffn_dim": 2048},
                "text_config": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 12,
                    "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": VOCABULARY,
                    "max_position_embeddings": 8192, "rms_norm_eps": 1e-5}}),
        )?;
        let mut tensors = HashMap::new();
        for (name, shape) in shapes() {
            let fan = shape.iter().skip(1).product::<usize>().max(1) as f64;
            let tensor = Tensor::randn(0_f32, 1.0, shape, &Device::Cpu)?;
            let tensor = if name.contains("norm") && name.ends_with("weight") {
                tensor.ones_like()?
            } else {
                (tensor / fan.sqrt())?
            };
            tensors.insert(name, tensor);
        }
        candle_core::safetensors::save(&tensors, folder.join("model.safetensors"))?;
        Ok(())
    }

    fn shapes() -> Vec<(String, Vec<usize>)> {
        let mut shapes = vec![
            ("audio_tower.conv1.weight".to_owned(), vec![512, 128, 3]),
            ("audio_tower.conv1.bias".to_owned(), vec![512]),
            ("audio_tower.conv2.weight".to_owned(), vec![512, 512, 3]),
            ("audio_tower.conv2.bias".to_owned(), vec![512]),
            ("audio_tower.embed_positions.weight".to_owned(), vec![1500, 512]),
            ("audio_tower.layer_norm.weight".to_owned(), vec![512]),
            ("audio_tower.layer_norm.bias".to_owned(), vec![512]),
            ("multi_modal_projector.linear.weight".to_owned(), vec![896, 512]),
            ("multi_modal_projector.linear.bias".to_owned(), vec![896]),
            ("language_model.model.embed_tokens.weight".to_owned(), vec![32_000, 896]),
            ("language_model.model.norm.weight".to_owned(), vec![896]),
            ("language_model.lm_head.weight".to_owned(), vec![32_000, 896]),
        ];
        let mut linear = |name: String, out: usize, inner: usize, bias: bool| {
            shapes.push((format!("{name}.weight"), if inner == 0 { vec![out] } else { vec![out, inner] }));
            if bias {
                shapes.push((format!("{name}.bias"), vec![out]));
            }
        };
        for layer in 0..6 {
            for (name, out, inner, bias) in [
                ("self_attn.q_proj", 512, 512, true),
                ("self_attn.k_proj", 512, 512, false),
                ("self_attn.v_proj", 512, 512, true),
                ("self_attn.out_proj", 512, 512, true),
                ("fc1", 2048, 512, true),
                ("fc2", 512, 2048, true),
                ("self_attn_layer_norm", 512, 0, true),
                ("final_layer_norm", 512, 0, true),
            ] {
                linear(format!("audio_tower.layers.{layer}.{name}"), out, inner, bias);
            }
        }
        for layer in 0..12 {
            for (name, out, inner, bias) in [
                ("self_attn.q_proj", 896, 896, true),
                ("self_attn.k_proj", 128, 896, true),
                ("self_attn.v_proj", 128, 896, true),
                ("self_attn.o_proj", 896, 896, false),
                ("mlp.gate_proj", 4864, 896, false),
                ("mlp.up_proj", 4864, 896, false),
                ("mlp.down_proj", 896, 4864, false),
                ("input_layernorm", 896, 0, false),
                ("post_attention_layernorm", 896, 0, false),
            ] {
                linear(format!("language_model.model.layers.{layer}.{name}"), out, inner, bias);
            }
        }
        shapes
    }
}
