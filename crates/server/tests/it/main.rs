//! What the compiler does not hold: the order of the server's modules.

mod order;
