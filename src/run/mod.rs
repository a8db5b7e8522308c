//! Plan, generate and score a run: scheduling, journal, resume. Knows no protocol, no codec and no dialect: it
//! moves requests through a model and outcomes into a journal.

pub mod folder;
pub mod generate;
pub mod journal;
pub mod manifest;
pub mod plan;
pub mod score;
