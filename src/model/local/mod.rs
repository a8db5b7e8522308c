//! Local models in candle. The only room that knows candle.
