//! The tokens of an HTML page in order, for the modules that build text or a tree from them.
//!
//! Guarantees: time and memory proportional to the page, whatever its content; a sink can stop at any
//! token. This is why the tokenizer is `html5gum` and not that of `html5ever`, which compares each
//! attribute of a tag with all before it (ADR 16). Both follow the same specification, so the tokens are
//! the same. Not here: the tree, and the meaning of tokens.

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Emitter, Error, ForwardingEmitter, Span, State, Tokenizer};

/// Receives the tokens of a page.
pub(super) trait Sink {
    /// Receives the next token or part of a tag. `false` stops the tokenizer.
    fn take(&mut self, event: CallbackEvent<'_>) -> bool;

    /// How to read the content after the tag that has just ended; `None` means as markup.
    fn state(&mut self) -> Option<State>;

    /// Whether the open element belongs to SVG or `MathML`, where CDATA sections are text.
    fn is_foreign(&self) -> bool {
        false
    }
}

/// Passes the tokens of a page to a sink; `false` if the sink stopped before the end of the page.
pub(super) fn read(page: &str, sink: &mut impl Sink) -> bool {
    let page = page.strip_prefix('\u{feff}').unwrap_or(page);
    let emitter = Reading(CallbackEmitter::new(Events(sink)));
    Tokenizer::new_with_emitter(page, emitter).next().is_none()
}

/// Adapts a sink to the callback of the tokenizer.
struct Events<'a, S>(&'a mut S);

/// The only token that the emitter returns: the sink has stopped.
struct Stopped;

impl<S: Sink> Callback<Stopped, ()> for Events<'_, S> {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _span: Span<()>) -> Option<Stopped> {
        (!self.0.take(event)).then_some(Stopped)
    }
}

struct Reading<'a, S: Sink>(CallbackEmitter<Events<'a, S>, Stopped>);

impl<S: Sink> ForwardingEmitter for Reading<'_, S> {
    type Token = Stopped;

    fn inner(&mut self) -> &mut impl Emitter<Token = Stopped> {
        &mut self.0
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        // The inner emitter never switches the state, so its answer is ignored.
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

    /// Stops at the token of this number, counted from 1.
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
    fn a_sink_can_stop_the_tokenizer() {
        let page = "<p>a<p>b<p>c";
        assert!(!read(page, &mut Few(2)));
        assert!(!read(page, &mut Few(9)));
        assert!(read(page, &mut Few(100)));
        assert!(!read(&"<p a b c>x".repeat(1_000_000), &mut Few(5)));
    }
}
