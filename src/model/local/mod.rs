//! Local models in candle: no Python, no server.
//!
//! Everything here is our own code on candle's tensors, tested against the reference implementation. This room alone
//! knows candle. It must not know benchmarks, datasets, audio codecs or configs.

pub mod audio_encoder;
pub mod chat_template;
pub mod config;
mod decoder;
pub mod device;
mod engine;
pub mod error;
pub mod generate;
mod kept;
mod nn;
mod placing;
mod projector;
pub mod qwen2_5_vl;
pub mod qwen2_audio;
mod remembered;
pub mod sampler;
pub mod text;
pub mod tokenizer;
mod weights;
pub mod whisper;
mod worker;

pub use engine::{Inventory, SpeechSpec};
pub use error::LoadError;
pub use worker::{Inspected, LocalModel, LocalSpec, check};

/// The first line of an error of candle, without its backtrace.
fn first_line(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
