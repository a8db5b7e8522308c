//! Media files: sniffing, decoding, transforms. The only room that knows codecs.

pub mod audio;
