//! A store's URL as text, and what it means.

use tidegate::{StoreError, StoreErrorKind};
use tidegate_redis::{Access, Endpoint, ServerList};

/// A URL of a quorum, taken apart: `redis+quorum://[user:password@]h1:6379,h2,h3[/db]`, or `rediss+quorum://…` with the
/// parameters of TLS.
///
/// ```
/// use tidegate_quorum::QuorumUrl;
///
/// let url = QuorumUrl::parse("redis+quorum://10.0.0.3,10.0.0.1:6380,10.0.0.2")?;
/// let servers: Vec<String> = url.servers().map(|server| server.to_string()).collect();
/// assert_eq!(servers, ["10.0.0.1:6380", "10.0.0.2:6379", "10.0.0.3:6379"]); // the order does not matter
///
/// let error = QuorumUrl::parse("redis+quorum://10.0.0.1,10.0.0.2").unwrap_err();
/// assert!(error.to_string().contains("expected 3, 5, 7 or 9"), "{error}");
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuorumUrl {
    pub(crate) list: ServerList,
}

impl QuorumUrl {
    /// How URLs begin.
    ///
    /// ```
    /// # use tidegate_quorum::QuorumUrl;
    /// assert_eq!(QuorumUrl::SCHEMES, ["redis+quorum://", "rediss+quorum://"]);
    /// ```
    pub const SCHEMES: &'static [&'static str] = &["redis+quorum://", "rediss+quorum://"];

    /// Takes a URL apart. It reads no files.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let mut list = ServerList::parse(url, "quorum")?;
        // One more than an odd number outvotes nobody, and has to be waited for.
        if !matches!(list.endpoints.len(), 3 | 5 | 7 | 9) {
            return Err(bad("servers: expected 3, 5, 7 or 9, as in redis+quorum://h1,h2,h3"));
        }
        list.endpoints.sort();
        if list.endpoints.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(bad("servers: one is named twice"));
        }
        Ok(Self { list })
    }

    /// The servers, in the same order for everyone who names them alike.
    pub fn servers(&self) -> impl Iterator<Item = &Endpoint> {
        self.list.endpoints.iter()
    }

    /// How to enter them; reads the files of TLS.
    pub(crate) fn access(&self) -> Result<Access, StoreError> {
        Access::to(&self.list)
    }
}

fn bad(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadRequest, format!("store URL, {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_urls_say_which_part_and_never_the_password() {
        for (url, part) in [
            ("redis://:secret@a,b,c", "scheme"),
            ("redis+cluster://:secret@a,b,c", "scheme"),
            ("redis+quorum://:secret@a", "servers"),
            ("redis+quorum://:secret@a,b,c,d", "servers"),
            ("redis+quorum://a,b,c,d,e,f,g,h,i,j,k", "servers"),
            ("redis+quorum://:secret@a,b,a:6379", "twice"),
            ("redis+quorum://:secret@a,b,c:port", "port"),
            ("redis+quorum://:secret@a,,c", "host"),
            ("redis+quorum://:secret@a,b,c/x", "database"),
            ("redis+quorum://:secret@a,b,c?ca=x", "parameters"),
            ("rediss+quorum://:secret@a,b,c?cert=x", "parameter key"),
        ] {
            let error = QuorumUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
        }
        for good in ["redis+quorum://u:p@a,b,c/3", "rediss+quorum://[::1],[::2]:7,h?ca=/f"] {
            assert!(QuorumUrl::parse(good).is_ok(), "{good}");
        }
    }
}
