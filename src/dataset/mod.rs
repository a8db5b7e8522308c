//! Published file formats to rows. The only room that knows file formats of datasets.
