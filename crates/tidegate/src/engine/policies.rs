//! The policies of an engine, by name and by number.

use std::collections::BTreeMap;

use rapidhash::RapidHashMap;

use crate::policy::Compiled;

/// Policies in the order of their names. A check finds its own with one hash.
#[derive(Debug)]
pub(super) struct Policies {
    in_order: Vec<Compiled>,
    by_name: RapidHashMap<Box<str>, usize>,
}

impl Policies {
    pub(super) fn new(named: BTreeMap<String, Compiled>) -> Self {
        let number =
            |(index, (_, policy)): (usize, (String, Compiled))| Compiled { index, ..policy };
        let in_order: Vec<_> = named.into_iter().enumerate().map(number).collect();
        let by_name = in_order.iter().map(|policy| (policy.name.clone(), policy.index)).collect();
        Self { in_order, by_name }
    }

    #[inline]
    pub(super) fn get(&self, name: &str) -> Option<&Compiled> {
        self.by_name.get(name).and_then(|index| self.in_order.get(*index))
    }

    pub(super) fn at(&self, index: usize) -> Option<&Compiled> {
        self.in_order.get(index)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Compiled> {
        self.in_order.iter()
    }
}
