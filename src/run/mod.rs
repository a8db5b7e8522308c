//! Plan, generate and score a run: scheduling, journal, resume. Knows no protocol, no codec and no dialect: it
//! moves requests through a model and outcomes into a journal.

mod alarms;
mod answered_as;
pub mod cost;
pub mod differences;
pub mod digests;
pub mod export;
mod fetched;
pub mod folder;
pub mod generate;
pub mod journal;
mod journal_index;
mod journal_io;
mod journal_scan;
pub mod judge;
pub mod manifest;
mod neighbours;
mod pipeline;
pub mod plan;
mod plan_file;
mod requests;
pub mod score;
pub mod sorted;
pub mod transcript_languages;
pub mod transcript_rates;
pub mod transcripts;
mod whole;
