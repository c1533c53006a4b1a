//! The fields of a protobuf message, one after another. Nothing is allocated, and no length is believed.

use super::super::request::Bad;

/// What a field holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value<'a> {
    Varint(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// Numbers of a fixed width, which none of our messages has.
    Fixed,
}

/// Reads a message field by field.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field's number and value, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Bad> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| truncated())?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            other => return Err(Bad::new(format!("malformed request: wire type {other}"))),
        };
        match tag >> 3 {
            0 => Err(Bad::new("malformed request: field number 0")),
            number => Ok(Some((number, value))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, Bad> {
        let mut value = 0;
        for (index, byte) in self.rest.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                // The tenth byte has room for one bit.
                if index == 9 && *byte > 1 {
                    break;
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { truncated() } else { overlong() })
    }
}

impl<'a> Value<'a> {
    pub(super) fn text(self, field: &str) -> Result<&'a str, Bad> {
        let text = std::str::from_utf8(self.bytes(field)?);
        text.map_err(|_| Bad::new(format!("malformed request: {field} is not UTF-8")))
    }

    pub(super) fn bytes(self, field: &str) -> Result<&'a [u8], Bad> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) | Self::Fixed => Err(wrong_type(field)),
        }
    }

    pub(super) fn number(self, field: &str) -> Result<u64, Bad> {
        match self {
            Self::Varint(number) => Ok(number),
            Self::Bytes(_) | Self::Fixed => Err(wrong_type(field)),
        }
    }

    /// A number of 32 bits; what is beyond them is dropped, as protobuf has it.
    #[expect(clippy::cast_possible_truncation, reason = "protobuf truncates")]
    pub(super) fn number_32(self, field: &str) -> Result<u32, Bad> {
        self.number(field).map(|number| number as u32)
    }
}

fn truncated() -> Bad {
    Bad::new("malformed request: it ends early")
}

fn overlong() -> Bad {
    Bad::new("malformed request: a number of more than 64 bits")
}

fn wrong_type(field: &str) -> Bad {
    Bad::new(format!("malformed request: {field} has another wire type"))
}
