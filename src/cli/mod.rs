//! The command line: clap types and one file a command. The only room that prints.
