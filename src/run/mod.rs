//! Plan and generate: scheduling, journal, resume, progress. Knows no protocol, no codec and no dialect.
