//! Tables and comparison with published figures.
//!
//! Takes scores, gives tables and their Markdown and CSV. Must not know journals, models or datasets.

pub mod figure;
pub mod published;
pub mod scores_file;
pub mod table;
