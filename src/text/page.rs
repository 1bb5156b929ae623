//! The tokens of an HTML page, one after the other, for whoever makes text or a tree of them.
//!
//! Promises: time and memory in proportion to the page, whatever stands in it; the reader can stop at any token. That is
//! why `html5gum` reads it and not the tokenizer of `html5ever`, which compares each attribute of a tag with all before it
//! (ADR 16). Both follow the same specification, so that the tokens are the same. Leaves out: the tree, and every decision
//! what a token means.

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Emitter, Error, ForwardingEmitter, Span, State, Tokenizer};

/// What takes the tokens of a page.
pub(super) trait Sink {
    /// The next token or part of a tag. `false` ends the reading.
    fn take(&mut self, event: CallbackEvent<'_>) -> bool;

    /// How the content of the tag that has just ended is to be read; `None`: as markup.
    fn state(&mut self) -> Option<State>;

    /// Whether the element that is open is one of a drawing or formula, in which sections of characters are text.
    fn is_foreign(&self) -> bool {
        false
    }
}

/// Hands the tokens of a page to a sink; `false` if the sink ended the reading before the page did.
pub(super) fn read(page: &str, sink: &mut impl Sink) -> bool {
    let page = page.strip_prefix('\u{feff}').unwrap_or(page);
    let emitter = Reading(CallbackEmitter::new(Events(sink)));
    Tokenizer::new_with_emitter(page, emitter).next().is_none()
}

/// A sink in the form that the tokenizer knows.
struct Events<'a, S>(&'a mut S);

/// The sink has enough.
struct Enough;

impl<S: Sink> Callback<Enough, ()> for Events<'_, S> {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _place: Span<()>) -> Option<Enough> {
        (!self.0.take(event)).then_some(Enough)
    }
}

struct Reading<'a, S: Sink>(CallbackEmitter<Events<'a, S>, Enough>);

impl<S: Sink> ForwardingEmitter for Reading<'_, S> {
    type Token = Enough;

    fn inner(&mut self) -> &mut impl Emitter<Token = Enough> {
        &mut self.0
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        // The emitter within never switches by itself.
        let _ = self.0.emit_current_tag();
        self.0.callback_mut().0.state()
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.0.callback_mut().0.is_foreign()
    }

    fn emit_error(&mut self, _error: Error) {}

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many tokens.
    struct Few(usize);

    impl Sink for Few {
        fn take(&mut self, _event: CallbackEvent<'_>) -> bool {
            self.0 = self.0.saturating_sub(1);
            self.0 > 0
        }

        fn state(&mut self) -> Option<State> {
            None
        }
    }

    #[test]
    fn a_sink_ends_the_reading() {
        let page = "<p>a<p>b<p>c";
        assert!(!read(page, &mut Few(2)));
        assert!(!read(page, &mut Few(9)));
        assert!(read(page, &mut Few(100)));
        assert!(!read(&"<p a b c>x".repeat(1_000_000), &mut Few(5)));
    }
}
