//! What each client holds of a door: connections, requests, bytes. A client may take a part of a bound only, so that the
//! others are served while one takes all it gets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, ops};

use tidegate_request::Peer;

use super::room::HeldBytes;

/// The name under which an address is counted: IPv6 by its network. `None` for a trusted proxy, behind which are many
/// clients. Called for each connection, because a reload may change it.
pub(crate) type Identify = Arc<dyn Fn(IpAddr) -> Option<String> + Send + Sync>;

/// The name under which unknown peers are counted: no address has it.
const UNKNOWN: &str = "unknown";

/// The clients of a door. Holds an entry for each address with a connection or a request.
pub(crate) struct Clients {
    identify: Identify,
    /// The most connections of one client; `None` for no bound.
    connections_max: Option<usize>,
    known: Mutex<HashMap<Arc<str>, Known>>,
}

#[derive(Default)]
struct Known {
    usage: Arc<ClientUsage>,
    handles: usize,
}

/// What one client holds.
#[derive(Default, Debug)]
pub(crate) struct ClientUsage {
    connections: AtomicUsize,
    requests: AtomicUsize,
    pub(crate) held_bytes: HeldBytes,
}

/// The client at the other end of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    /// `None` if nobody counts it: a Unix socket, a trusted proxy.
    usage: Option<CountedUsage>,
    clients: Option<Arc<Clients>>,
}

/// The usage of a client, which is known until the last of these is dropped.
pub(crate) struct CountedUsage {
    usage: Arc<ClientUsage>,
    name: Arc<str>,
    clients: Arc<Clients>,
}

/// A request of a client, until dropped.
#[derive(Debug)]
pub(crate) struct ClientRequestSlot {
    usage: Arc<ClientUsage>,
    /// Keeps the client known, if its connection does not.
    _behind_proxy: Option<CountedUsage>,
}

/// One client has reached its part of a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooMany;

impl Clients {
    pub(crate) fn new(identify: Identify, connections_max: Option<usize>) -> Arc<Self> {
        Arc::new(Self { identify, connections_max, known: Mutex::default() })
    }

    /// Counts a connection until the returned value is dropped.
    pub(crate) fn connect(self: &Arc<Self>, peer: Peer) -> Result<Client, TooMany> {
        let usage = match peer {
            Peer::Ip(ip) => self.usage(ip),
            // All of whom nothing is known share one part, whichever addresses are trusted.
            Peer::Unknown => Some(self.usage_of(UNKNOWN.into())),
            Peer::Unix => None,
        };
        if let Some(counted) = &usage {
            let before = counted.connections.fetch_add(1, Relaxed);
            if self.connections_max.is_some_and(|max| before >= max) {
                counted.connections.fetch_sub(1, Relaxed);
                return Err(TooMany);
            }
        }
        Ok(Client { peer, usage, clients: Some(self.clone()) })
    }

    fn usage(self: &Arc<Self>, ip: IpAddr) -> Option<CountedUsage> {
        Some(self.usage_of((self.identify)(ip)?.into()))
    }

    fn usage_of(self: &Arc<Self>, name: Arc<str>) -> CountedUsage {
        let mut known = self.known();
        let entry = known.entry(name.clone()).or_default();
        entry.handles += 1;
        CountedUsage { usage: entry.usage.clone(), name, clients: self.clone() }
    }

    /// Locked once per connection, and per request that comes through a trusted proxy.
    fn known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// What the client holds, if it is counted.
    pub(crate) fn usage(&self) -> Option<&Arc<ClientUsage>> {
        self.usage.as_ref().map(|counted| &counted.usage)
    }

    /// Counts a request of the client at `ip`, who may be behind a trusted proxy: at most `max` at once. `Ok(None)` if
    /// nobody counts that client.
    pub(crate) fn request(
        &self,
        ip: Option<IpAddr>,
        max: Option<usize>,
    ) -> Result<Option<ClientRequestSlot>, TooMany> {
        let Some(max) = max else { return Ok(None) };
        let slot = match (&self.usage, &self.clients, ip) {
            // The address of an untrusted peer is the client's: no lookup.
            (Some(counted), _, _) => {
                ClientRequestSlot { usage: counted.usage.clone(), _behind_proxy: None }
            }
            (None, Some(clients), Some(ip)) => match clients.usage(ip) {
                Some(counted) => {
                    ClientRequestSlot { usage: counted.usage.clone(), _behind_proxy: Some(counted) }
                }
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        // Above the bound the slot is dropped, which undoes the count.
        let before = slot.usage.requests.fetch_add(1, Relaxed);
        if before < max { Ok(Some(slot)) } else { Err(TooMany) }
    }
}

impl ClientRequestSlot {
    /// What its client holds.
    pub(crate) const fn usage(&self) -> &Arc<ClientUsage> {
        &self.usage
    }
}

impl From<Peer> for Client {
    /// A client that nobody counts.
    fn from(peer: Peer) -> Self {
        Self { peer, usage: None, clients: None }
    }
}

impl ops::Deref for CountedUsage {
    type Target = ClientUsage;

    fn deref(&self) -> &ClientUsage {
        &self.usage
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(counted) = &self.usage {
            counted.connections.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for ClientRequestSlot {
    fn drop(&mut self) {
        self.usage.requests.fetch_sub(1, Relaxed);
    }
}

impl Drop for CountedUsage {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.clients.known().entry(self.name.clone()) {
            entry.get_mut().handles -= 1;
            if entry.get().handles == 0 {
                entry.remove();
            }
        }
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("connections_max", &self.connections_max)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CountedUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.usage.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(connections_max: Option<usize>) -> Arc<Clients> {
        let trusted: IpAddr = "10.0.0.1".parse().unwrap();
        let identify = move |ip: IpAddr| (ip != trusted).then(|| ip.to_string());
        Clients::new(Arc::new(identify), connections_max)
    }

    fn peer(ip: &str) -> Peer {
        Peer::Ip(ip.parse().unwrap())
    }

    #[test]
    fn connections_of_a_client_are_bounded_and_those_of_proxies_are_not() {
        let clients = clients(Some(2));
        let connect = |ip| clients.connect(peer(ip));
        let (first, second) = (connect("192.0.2.1").unwrap(), connect("192.0.2.1").unwrap());
        assert_eq!(connect("192.0.2.1").unwrap_err(), TooMany);
        assert!(connect("192.0.2.2").is_ok());
        let proxied: Vec<_> = (0..9).map(|_| connect("10.0.0.1").unwrap()).collect();
        assert!((0..9).all(|_| clients.connect(Peer::Unix).is_ok()));
        drop(first);
        assert!(connect("192.0.2.1").is_ok());
        drop((second, proxied));
        assert!(clients.known().is_empty(), "nobody is connected");
    }

    #[test]
    fn unknown_peers_are_counted_whoever_is_trusted() {
        let clients = Clients::new(Arc::new(|_| None), Some(2));
        let held = [clients.connect(Peer::Unknown), clients.connect(Peer::Unknown)];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(clients.connect(Peer::Unknown).unwrap_err(), TooMany);
        assert!((0..9).all(|_| clients.connect(peer("0.0.0.0")).is_ok()));
        drop(held);
        assert!(clients.known().is_empty());
    }

    #[test]
    fn requests_count_for_the_client_behind_a_proxy() {
        let clients = clients(None);
        let proxy = clients.connect(peer("10.0.0.1")).unwrap();
        let request = |client: &Client, ip: &str| client.request(ip.parse().ok(), Some(2));
        let held = [request(&proxy, "192.0.2.1"), request(&proxy, "192.0.2.1")];
        assert!(held.iter().all(Result::is_ok));
        assert_eq!(request(&proxy, "192.0.2.1").unwrap_err(), TooMany);
        assert!(request(&proxy, "192.0.2.2").is_ok());
        let direct = clients.connect(peer("192.0.2.1")).unwrap();
        assert_eq!(request(&direct, "192.0.2.9").unwrap_err(), TooMany, "it is the same client");
        drop(held);
        assert!(request(&direct, "192.0.2.1").is_ok());
        drop((proxy, direct));
        assert!(clients.known().is_empty());
    }
}
