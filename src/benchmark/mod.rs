//! The protocols of the papers: conditions, prompts, gold, scoring recipe, tables. Never opens a file, a socket or a codec.
