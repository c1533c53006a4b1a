//! The cluster state as one node reports it: the reply to `CLUSTER NODES`.

/// One line of `CLUSTER NODES`.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) port: u16,
    flags: String,
    pub(super) master_id: String,
    link: String,
    pub(super) slots: Vec<(u16, u16)>,
}

impl Member {
    pub(super) fn is_master(&self) -> bool {
        self.flags.contains("master")
    }

    /// Whether it is a replica or has slots. A new node has joined as a master without slots.
    pub(super) fn has_role(&self) -> bool {
        !self.is_master() || !self.slots.is_empty()
    }

    /// Not if another node suspects a failure: `fail?` contains `fail` as well.
    pub(super) fn is_alive(&self) -> bool {
        !self.flags.contains("fail")
            && !self.flags.contains("handshake")
            && self.link == "connected"
    }
}

/// The port of the master that has the slot.
pub(super) fn owner(view: &[Member], slot: u16) -> Option<u16> {
    let has_slot = |member: &&Member| {
        member.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    };
    view.iter().filter(|member| member.is_master()).find(has_slot).map(|member| member.port)
}

/// `id host:port@bus flags master ping pong epoch link slot slot-slot [slot->-id]`
pub(super) fn members(text: &str) -> Vec<Member> {
    let member = |line: &str| {
        let words = line.split(' ').collect::<Vec<_>>();
        let (_, ports) = words[1].split_once(':').unwrap();
        let (port, _) = ports.split_once('@').unwrap();
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            (first.parse().unwrap(), last.parse().unwrap())
        };
        Member {
            port: port.parse().unwrap(),
            flags: words[2].to_owned(),
            master_id: words[3].to_owned(),
            link: words[7].to_owned(),
            slots: words[8..].iter().filter(|word| !word.starts_with('[')).map(range).collect(),
        }
    };
    text.lines().map(member).collect()
}
