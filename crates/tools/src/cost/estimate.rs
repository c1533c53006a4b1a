//! The capacity that is needed, and the savings.

use serde::Serialize;

use super::money::Cents;
use super::prices::{Instance, Prices};

/// A part of a whole, in ten-thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part(pub(super) u32);

impl Part {
    pub(super) const WHOLE: u32 = 10_000;

    fn rest(self) -> u128 {
        u128::from(Self::WHOLE.saturating_sub(self.0))
    }
}

impl Serialize for Part {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / f64::from(Self::WHOLE))
    }
}

#[derive(Clone, Debug)]
pub(super) struct CostInput {
    pub(super) peak_rps: u64,
    pub(super) bots: Part,
    pub(super) efficiency: Part,
    /// By name. Absent: the smallest that holds the peak.
    pub(super) current: Option<String>,
    pub(super) saved: Saved,
    /// Per year.
    pub(super) limiter: Option<Cents>,
}

/// Monthly savings.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub(super) struct Saved {
    pub(super) database: Cents,
    pub(super) pods: Cents,
    pub(super) egress: Cents,
    pub(super) hours: Cents,
}

#[derive(Debug, Serialize)]
pub(super) struct CostReport {
    pub(super) peak_rps: u64,
    pub(super) bot_pct: Part,
    pub(super) efficiency: Part,
    pub(super) needed_rps: u64,
    pub(super) current: Instance,
    /// `null` if none holds what is needed.
    pub(super) recommended: Option<Instance>,
    pub(super) saved_monthly: Saved,
    pub(super) monthly_savings: Cents,
    pub(super) annual_savings: Cents,
    pub(super) limiter_annual_cost: Cents,
    /// `null` if nothing is saved, or the limiter costs nothing.
    pub(super) roi: Option<f64>,
    pub(super) notes: Vec<String>,
}

pub(super) fn estimate(input: &CostInput, prices: &Prices) -> Result<CostReport, String> {
    let needed_rps = needed(input);
    let current = match &input.current {
        Some(name) => prices.named(name)?,
        None => (prices.smallest_for(input.peak_rps).or(prices.largest()))
            .ok_or_else(|| "the price list is empty".to_owned())?,
    };
    let recommended = prices.smallest_for(needed_rps);
    let mut notes = Vec::new();
    if let (None, Some(largest)) = (recommended, prices.largest()) {
        let Instance { name, rps, .. } = largest;
        notes.push(format!(
            "nothing fits: {name}, the largest of the list, holds {rps} requests/s, and {needed_rps} are needed. Give larger \
             ones with --pricing"
        ));
    } else if input.current.is_none() && current.rps < input.peak_rps {
        let (name, peak) = (&current.name, input.peak_rps);
        notes.push(format!(
            "nothing of the list holds {peak} requests/s: {name}, the largest, stands for what is paid for now. Name that \
             with --current"
        ));
    }
    let database = recommended.map_or(0, |next| current.monthly.0 - next.monthly.0);
    let saved = Saved { database: Cents(database), ..input.saved };
    let monthly = saved.sum();
    let limiter = input.limiter.unwrap_or(Cents(current.monthly.yearly().0 / 10));
    if monthly <= Cents(0) {
        notes.extend(recommended.map(|next| no_savings(current, next)));
    } else if limiter == Cents(0) {
        notes.push("no ROI: the limiter costs nothing".to_owned());
    }
    let pays = monthly > Cents(0) && limiter > Cents(0);
    Ok(CostReport {
        peak_rps: input.peak_rps,
        bot_pct: input.bots,
        efficiency: input.efficiency,
        needed_rps,
        current: current.clone(),
        recommended: recommended.cloned(),
        saved_monthly: saved,
        monthly_savings: monthly,
        annual_savings: monthly.yearly(),
        limiter_annual_cost: limiter,
        roi: pays.then(|| monthly.yearly().dollars() / limiter.dollars()),
        notes,
    })
}

fn no_savings(current: &Instance, next: &Instance) -> String {
    let name = &current.name;
    if next.rps > current.rps {
        format!("no savings: {name} is too small for what is needed, {} is not", next.name)
    } else if next.name == *name {
        format!("no savings: {name} is the smallest that holds what is needed")
    } else {
        "no savings: the rest costs more than the database saves".to_owned()
    }
}

/// `peak × (1 − bots) × (1 − efficiency)`, rounded up.
fn needed(input: &CostInput) -> u64 {
    let whole = u128::from(Part::WHOLE) * u128::from(Part::WHOLE);
    let kept = input.bots.rest() * input.efficiency.rest();
    let needed = (u128::from(input.peak_rps) * kept).div_ceil(whole);
    u64::try_from(needed).unwrap_or(u64::MAX)
}

impl Saved {
    fn sum(&self) -> Cents {
        Cents(self.database.0 + self.pods.0 + self.egress.0 + self.hours.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(peak_rps: u64) -> CostInput {
        CostInput {
            peak_rps,
            bots: Part(4000),
            efficiency: Part(3500),
            current: None,
            saved: Saved::default(),
            limiter: None,
        }
    }

    fn ask(input: &CostInput) -> CostReport {
        estimate(input, &Prices::default()).unwrap()
    }

    #[test]
    fn fifty_thousand_need_nineteen_and_a_half() {
        let report = ask(&input(50_000));
        assert_eq!(report.needed_rps, 19_500);
        assert_eq!(report.current.name, "db.r6g.16xlarge");
        assert_eq!(report.recommended.unwrap().name, "db.r6g.8xlarge");
        assert_eq!(report.monthly_savings, Cents(576_000));
    }

    #[test]
    fn a_smaller_database_pods_egress_and_hours_make_143760_a_year() {
        let saved = Saved {
            pods: Cents(300_000),
            egress: Cents(360_000),
            hours: Cents(250_000),
            ..Saved::default()
        };
        let report =
            ask(&CostInput { current: Some("db.r6g.8xlarge".to_owned()), saved, ..input(30_000) });
        assert_eq!(report.recommended.unwrap().name, "db.r6g.4xlarge");
        assert_eq!(report.monthly_savings.to_string(), "$11,980");
        assert_eq!(report.annual_savings.to_string(), "$143,760");
        assert_eq!(report.limiter_annual_cost.to_string(), "$6,912");
        assert!((report.roi.unwrap() - 20.798_6).abs() < 1e-4);
    }

    #[test]
    fn where_nothing_is_saved_there_is_no_roi() {
        let too_many = ask(&input(1_000_000));
        assert_eq!((too_many.recommended, too_many.roi), (None, None));
        assert!(too_many.notes[0].starts_with("nothing fits"), "{:?}", too_many.notes);
        // It does not say as well that what is there fits.
        assert_eq!(too_many.notes.len(), 1, "{:?}", too_many.notes);
        // The whole peak fits nowhere, what is needed does.
        let largest = ask(&input(100_000));
        assert_eq!(largest.recommended.unwrap().name, "db.r6g.16xlarge");
        assert!(
            largest.notes[0].contains("stands for what is paid for now"),
            "{:?}",
            largest.notes
        );
        assert!(largest.notes[1].contains("is the smallest that holds"), "{:?}", largest.notes);
        let fits = ask(&CostInput { current: Some("db.r6g.8xlarge".to_owned()), ..input(50_000) });
        assert_eq!((fits.monthly_savings, fits.roi), (Cents(0), None));
        let grows = ask(&CostInput { current: Some("db.r6g.4xlarge".to_owned()), ..input(50_000) });
        assert_eq!((grows.monthly_savings, grows.roi), (Cents(-288_000), None));
        assert!(grows.notes[0].contains("db.r6g.4xlarge is too small"), "{:?}", grows.notes);
        let free = ask(&CostInput { limiter: Some(Cents(0)), ..input(50_000) });
        assert_eq!((free.roi, free.notes.len()), (None, 1));
        let nothing = ask(&CostInput { bots: Part(10_000), ..input(50_000) });
        assert_eq!(nothing.needed_rps, 0);
    }
}
