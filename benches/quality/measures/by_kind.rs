//! The recall of profiles by the kind of edit: every text of a set is edited in every way.
//!
//! Guarantees: the same texts and seed give the same figures. A text that an edit leaves unchanged does not
//! count for it. Not here: the edits (`kinds`); precision among many texts (`curve`).

use std::fmt::Write;

use lookalike_eval::{ALIKE, Set, set_aside_copies};
use lookalike_hamming::Bands;
use lookalike_hash::Hash;
use lookalike_text::fingerprint::{Profile, Signed, Status};

use super::kinds::{EDIT_KINDS, Editable, Kind, SPELLING_KINDS};
use super::unchecked;

/// What profiles find in a set.
#[derive(Debug)]
pub struct ByKind {
    /// The name of the set.
    pub set: String,
    /// For each profile, the number of pairs of different texts that are found. Texts that are similar by
    /// the features of `by` are not different.
    pub wrong: Vec<usize>,
    /// For each kind: its name, whether it is a spelling, the number of copies, and for each profile how many
    /// are found.
    pub kinds: Vec<(String, bool, usize, Vec<usize>)>,
}

/// Measures profiles at their own k.
pub fn by_kind(
    profiles: &[&'static Profile],
    by: &Profile,
    name: &str,
    texts: Vec<String>,
    seed: u64,
) -> ByKind {
    let mut set = Set { name: name.to_owned(), texts, ..Set::default() };
    let Ok(_) = set_aside_copies(&mut set, by, ALIKE, unchecked);
    let stored: Vec<Stored> = profiles.iter().map(|profile| Stored::of(profile, &set.texts)).collect();
    let wrong = stored.iter().map(|stored| stored.wrong(&set)).collect();
    let editable = Editable::of(&set.texts);
    let mut kinds = Vec::new();
    let all = EDIT_KINDS.iter().map(|kind| (*kind, false)).chain(SPELLING_KINDS.map(|kind| (kind, true)));
    for (kind, is_spelling) in all {
        let (mut copies, mut found) = (0, vec![0; profiles.len()]);
        for number in 0..set.texts.len() {
            let copy = editable.edited(number, kind, seed);
            if copy == set.texts[number] || is_too_rare(kind, &set.texts[number], &copy) {
                continue;
            }
            copies += 1;
            for (stored, found) in stored.iter().zip(&mut found) {
                *found += usize::from(stored.finds(number, &copy));
            }
        }
        kinds.push((kind.name(), is_spelling, copies, found));
    }
    ByKind { set: set.name, wrong, kinds }
}

/// Whether a spelling concerns only a few words of a text in another language or script.
fn is_too_rare(kind: Kind, text: &str, copy: &str) -> bool {
    let is_of_script = matches!(kind, Kind::Traditional | Kind::Tatweel | Kind::Vowels | Kind::ArabicLetters);
    let changed = text.chars().zip(copy.chars()).filter(|(a, b)| a != b).count();
    is_of_script && changed * 50 < text.chars().count()
}

/// The texts of a set as a collection has them.
struct Stored {
    profile: &'static Profile,
    made: Vec<Signed>,
    bands: Option<Bands>,
}

impl Stored {
    fn of(profile: &'static Profile, texts: &[String]) -> Stored {
        let made: Vec<Signed> = texts.iter().map(|text| profile.sign(text)).collect();
        let bands = profile.signatures().map(Bands::new);
        for one in &made {
            if let (Some(bands), Some(signature)) = (&bands, &one.signature) {
                bands.insert(one.fingerprint.hash, signature);
            }
        }
        Stored { profile, made, bands }
    }

    /// Whether a lookup of this copy finds the text.
    fn finds(&self, number: usize, copy: &str) -> bool {
        let copy = self.profile.sign(copy);
        let text = self.made[number].fingerprint.hash;
        copy.fingerprint.status != Status::Empty && self.near(&copy, |hash| hash == text)
    }

    /// Whether `is_wanted` is true of a hash within k.
    fn near(&self, query: &Signed, is_wanted: impl Fn(Hash) -> bool) -> bool {
        let k = self.profile.default_k();
        if let (Some(bands), Some(signature)) = (&self.bands, &query.signature) {
            let mut found = Vec::new();
            bands.within(signature, k, &mut found);
            return found.iter().any(|found| is_wanted(found.hash));
        }
        let hash = query.fingerprint.hash;
        let mut hashes = self.made.iter().map(|made| made.fingerprint.hash);
        hashes.any(|other| is_wanted(other) && hash.distance(other).is_some_and(|distance| distance <= k))
    }

    /// The number of pairs of different texts that are found.
    fn wrong(&self, set: &Set) -> usize {
        let mut wrong = 0;
        for (b, query) in (0_u32..).zip(&self.made) {
            for (a, other) in (0_u32..b).zip(&self.made) {
                let is_wanted = |hash: Hash| hash == other.fingerprint.hash;
                if !set.labels.ignored.contains(&(a, b)) && self.near(query, is_wanted) {
                    wrong += 1;
                }
            }
        }
        wrong
    }
}

/// The figures as Markdown: a row for each kind of edit, a column for each set.
pub fn kinds_table(profiles: &[&'static Profile], sets: &[ByKind]) -> String {
    let names: Vec<String> =
        profiles.iter().map(|profile| format!("`{}` k={}", profile.id(), profile.default_k())).collect();
    let mut out = format!("Recall of {}.\n\n| |", names.join(" / "));
    for set in sets {
        let _ = write!(out, " {} |", set.set);
    }
    let _ = writeln!(out, "\n|---|{}", "--:|".repeat(sets.len()));
    let kinds = sets.first().map_or(0, |set| set.kinds.len());
    let mut row = |name: &str, cell: &dyn Fn(&ByKind) -> Option<Vec<f64>>| {
        let _ = write!(out, "| {name} |");
        for set in sets {
            let _ = match cell(set) {
                None => write!(out, " – |"),
                Some(shares) => write!(out, " {} |", cells(&shares)),
            };
        }
        out.push('\n');
    };
    for kind in 0..kinds {
        row(&sets[0].kinds[kind].0, &|set| {
            let (_, _, copies, found) = &set.kinds[kind];
            let share = |found: &usize| *found as f64 / *copies as f64;
            (*copies >= LEAST_COPIES).then(|| found.iter().map(share).collect())
        });
        if kind + 1 == EDIT_KINDS.len() {
            row("**mean of these edits**", &|set| Some(mean(set, profiles.len())));
        }
    }
    row("texts", &|set| Some(vec![set.kinds.iter().map(|kind| kind.2).max().unwrap_or(0) as f64]));
    row("pairs of different texts found", &|set| Some(set.wrong.iter().map(|wrong| *wrong as f64).collect()));
    out
}

/// With fewer copies a figure says nothing.
const LEAST_COPIES: usize = 20;

/// The mean recall of each profile over the kinds that are not spellings.
fn mean(set: &ByKind, profiles: usize) -> Vec<f64> {
    let counted = || set.kinds.iter().filter(|kind| !kind.1 && kind.2 >= LEAST_COPIES);
    let of = |profile: usize| {
        let sum: f64 = counted().map(|kind| kind.3[profile] as f64 / kind.2 as f64).sum();
        sum / counted().count().max(1) as f64
    };
    (0..profiles).map(of).collect()
}

/// Shares without the zero before the point, counts as they are.
fn cells(values: &[f64]) -> String {
    let cell = |value: &f64| {
        if *value >= 1.0 || *value == 0.0 {
            return format!("{value:.0}");
        }
        let share = format!("{value:.2}");
        if share == "1.00" { "1".to_owned() } else { share.trim_start_matches('0').to_owned() }
    };
    values.iter().map(cell).collect::<Vec<_>>().join(" / ")
}
