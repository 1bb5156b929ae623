//! Remarks for the user on how the text of a document was read: a byte in its print, and a count in the
//! summary.

use lookalike_text::fingerprint::Profile;
use lookalike_text::{CharsetOf, PageText};

/// The remarks on a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Remarks(pub(super) u8);

impl Remarks {
    /// Its charset is guessed.
    const GUESSED: u8 = 1;
    /// Invalid bytes became U+FFFD.
    const REPLACED: u8 = 1 << 1;
    /// It is a page, and which text of it was used.
    const MAIN: u8 = 1 << 2;
    const VISIBLE: u8 = 1 << 3;
    /// A changed word may move it beyond k: by a profile for texts of any length, and by one for short texts.
    const SHORT: u8 = 1 << 4;
    const SHORTEST: u8 = 1 << 5;
    /// The remarks, as the summary writes them.
    const NAMED: [(u8, &'static str); 5] = [
        (Remarks::VISIBLE, "compared by all visible text"),
        (Remarks::GUESSED, "of a guessed charset"),
        (Remarks::REPLACED, "with bytes invalid in the charset, replaced by U+FFFD"),
        (Remarks::SHORT, "short for the profile (short-128 suits texts of 8 to 50 words)"),
        (Remarks::SHORTEST, "short even for the profile"),
    ];

    /// The remarks on a text of this charset.
    pub(super) fn of(charset: &CharsetOf) -> Remarks {
        let guessed = if charset.is_guessed { Remarks::GUESSED } else { 0 };
        Remarks(guessed | if charset.replaced > 0 { Remarks::REPLACED } else { 0 })
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        Remarks::NAMED.into_iter().filter(move |(remark, _)| self.0 & remark != 0).map(|(_, name)| name)
    }

    /// The remark on a page that this text of it was used.
    pub(super) fn of_page(which: PageText) -> Remarks {
        Remarks(if which == PageText::Main { Remarks::MAIN } else { Remarks::VISIBLE })
    }

    /// Which text of a page was used; `None` of a text.
    pub(super) fn page(self) -> Option<&'static str> {
        match self.0 & (Remarks::MAIN | Remarks::VISIBLE) {
            Remarks::MAIN => Some("main"),
            Remarks::VISIBLE => Some("visible"),
            _ => None,
        }
    }

    /// The remark on a text that is short for its profile.
    pub(super) fn of_short(profile: &Profile) -> Remarks {
        Remarks(if profile.is_for_short_texts() { Remarks::SHORTEST } else { Remarks::SHORT })
    }

    pub(super) fn with(self, other: Remarks) -> Remarks {
        Remarks(self.0 | other.0)
    }
}
