//! Prompt files and templates, with their hashes.
