//! TOML to a validated, resolved configuration; errors point at the line that is wrong.
