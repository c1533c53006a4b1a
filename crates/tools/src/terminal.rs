//! What the terminal is like.

/// <https://no-color.org>: set and not empty turns colours off.
pub fn wants_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
