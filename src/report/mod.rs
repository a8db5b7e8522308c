//! Tables and comparison with published figures.
