//! A buffer pool per thread. Idle connections hold no buffer: ten thousand of them need as much memory as ten.

use std::cell::RefCell;

/// Buffers kept per thread: two for one connection, and one more of each kind.
const KEPT_MAX: usize = 4;
/// Larger buffers are freed.
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for `bytes`.
pub(super) fn take(bytes: usize) -> Vec<u8> {
    let mut buffer = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    buffer.reserve_exact(bytes);
    buffer
}

/// Returns a buffer to the pool.
pub(super) fn give(mut buffer: Vec<u8>) {
    buffer.clear();
    if (1..=KEPT_BYTES_MAX).contains(&buffer.capacity()) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < KEPT_MAX {
                spare.push(buffer);
            }
        });
    }
}
