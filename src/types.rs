//! The few plain types that everything passes through.
