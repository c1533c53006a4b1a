//! Which troubles speak of a store's health.

use crate::store::Trouble;

/// Whether a trouble speaks of the store's health.
pub(crate) const fn says_failed(trouble: Trouble) -> bool {
    match trouble {
        Trouble::Unreachable
        | Trouble::NotSent
        | Trouble::Timeout
        | Trouble::Disconnected
        | Trouble::Protocol
        | Trouble::Denied
        | Trouble::NoScript
        | Trouble::ReadOnly
        | Trouble::Loading
        | Trouble::Busy
        | Trouble::OutOfMemory
        | Trouble::Misconfigured
        | Trouble::MasterDown
        | Trouble::ClusterDown
        | Trouble::MaxClients
        | Trouble::Other => true,
        // The ask's fault, one key's, that of replicas, or nobody's: it was not asked, or not waited for. Too many at once
        // are turned away by our own queue; if the store is why they wait, those who got in will say so.
        Trouble::BadAsk
        | Trouble::Apart
        | Trouble::Unsupported
        | Trouble::Overloaded
        | Trouble::WrongType
        | Trouble::Moving
        | Trouble::Unreplicated
        | Trouble::BreakerOpen
        | Trouble::UnderWay => false,
    }
}
