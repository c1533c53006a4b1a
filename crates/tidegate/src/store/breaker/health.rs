//! Which troubles speak of a store's health.

use crate::store::StoreErrorKind;

/// Whether a trouble speaks of the store's health.
pub(crate) const fn says_failed(trouble: StoreErrorKind) -> bool {
    match trouble {
        StoreErrorKind::Unreachable
        | StoreErrorKind::NotSent
        | StoreErrorKind::Timeout
        | StoreErrorKind::Disconnected
        | StoreErrorKind::Protocol
        | StoreErrorKind::Denied
        | StoreErrorKind::NoScript
        | StoreErrorKind::ReadOnly
        | StoreErrorKind::Loading
        | StoreErrorKind::Busy
        | StoreErrorKind::OutOfMemory
        | StoreErrorKind::Misconfigured
        | StoreErrorKind::MasterDown
        | StoreErrorKind::ClusterDown
        | StoreErrorKind::MaxClients
        | StoreErrorKind::Other => true,
        // The request's fault, one key's, that of replicas, or nobody's: it was not asked, or not waited for. Too many at once
        // are turned away by our own queue; if the store is why they wait, those who got in will say so.
        StoreErrorKind::BadRequest
        | StoreErrorKind::Apart
        | StoreErrorKind::Unsupported
        | StoreErrorKind::Overloaded
        | StoreErrorKind::WrongType
        | StoreErrorKind::Moving
        | StoreErrorKind::Unreplicated
        | StoreErrorKind::BreakerOpen
        | StoreErrorKind::UnderWay => false,
    }
}
