//! Whether a page has text enough to be compared.
//!
//! Pages that scripts fill have the same few words, such as a request to enable JavaScript, whatever they
//! show.
//! Not here: what becomes of such a page; short texts, which are compared whatever their length.

use crate::features::Units;
use crate::{PageRead, PageText, checked_page_text};

/// The fewest words of a page that is compared.
const LEAST_WORDS: f64 = 20.0;
/// Characters in a word of Chinese or Japanese, and of Thai, Lao, Khmer or Burmese, on average.
const CHARACTERS: [f64; 2] = [1.7, 4.0];

/// Whether a page has so little text, both in what was read and in all visible text, that being equal to
/// another page means nothing.
///
/// # Errors
/// The error of `check`.
pub fn has_too_little<E>(html: &str, read: &PageRead, check: impl Fn() -> Result<(), E>) -> Result<bool, E> {
    if !is_little(&read.text) {
        return Ok(false);
    }
    if read.which == PageText::Visible {
        return Ok(true);
    }
    Ok(is_little(&checked_page_text(html, PageText::Visible, check)?.text))
}

fn is_little(text: &str) -> bool {
    let units = Units::of(text);
    units.words + units.ideographs / CHARACTERS[0] + units.south_east_asian / CHARACTERS[1] < LEAST_WORDS
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::page_text;

    #[test]
    fn a_page_without_text_has_too_little() {
        let is_little = |html: &str| {
            let read = page_text(html, PageText::Main);
            let Ok(is_little) = has_too_little(html, &read, || Ok::<_, Infallible>(()));
            is_little
        };
        let article = "The library opens until ten in the evening. ".repeat(3);
        for little in [
            "",
            "<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>",
            "<p>Please enable JavaScript to view this page.</p><script>var a = 'library';</script>",
            "<title>网站</title><p>请启用脚本以继续浏览本网站。</p>",
        ] {
            assert!(is_little(little), "{little}");
        }
        for enough in [
            format!("<p>{article}</p>"),
            format!("<div hidden><p>{article}</p></div><p>Loading</p>"),
            format!("<textarea>{article}</textarea><p>Paste</p>"),
            format!("<p>{}</p>", "图书馆昨天宣布延长开放时间。".repeat(3)),
        ] {
            assert!(!is_little(&enough), "{enough}");
        }
    }
}
