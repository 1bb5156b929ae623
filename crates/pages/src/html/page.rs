//! The tokens of an HTML page in order, for the modules that build text or a tree from them.
//!
//! Guarantees: time and memory proportional to the page, whatever its content; a sink can stop at any
//! token. This is why the tokenizer is `html5gum` and not that of `html5ever`, which compares each
//! attribute of a tag with all before it (ADR 16). Both follow the same specification, so the tokens are
//! the same. Not here: the tree, and the meaning of tokens.

use html5gum::emitters::callback::{Callback, CallbackEmitter, CallbackEvent};
use html5gum::{Emitter, Error, ForwardingEmitter, Span, State, Tokenizer};

use crate::stop::{Check, Stop};

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
///
/// # Errors
/// The error of `check`, which is called once per [`TOKENS`] tokens and parts of tags.
pub(super) fn read(page: &str, sink: &mut impl Sink, check: Check<'_>) -> Result<bool, Stop> {
    let page = page.strip_prefix('\u{feff}').unwrap_or(page);
    let emitter = Reading(CallbackEmitter::new(Events { sink, check, tokens: 0 }));
    match Tokenizer::new_with_emitter(page, emitter).next() {
        None => Ok(true),
        Some(Ok(Stopped::BySink)) => Ok(false),
        Some(Ok(Stopped::ByCheck)) => Err(Stop),
        Some(Err(never)) => match never {},
    }
}

/// The number of tokens between two checks.
const TOKENS: usize = 512;

/// Adapts a sink to the callback of the tokenizer.
struct Events<'a, S> {
    sink: &'a mut S,
    check: Check<'a>,
    tokens: usize,
}

/// The only token that the emitter returns.
enum Stopped {
    BySink,
    ByCheck,
}

impl<S: Sink> Callback<Stopped, ()> for Events<'_, S> {
    fn handle_event(&mut self, event: CallbackEvent<'_>, _span: Span<()>) -> Option<Stopped> {
        self.tokens += 1;
        if self.tokens.is_multiple_of(TOKENS) && (self.check)().is_err() {
            return Some(Stopped::ByCheck);
        }
        (!self.sink.take(event)).then_some(Stopped::BySink)
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
        self.0.callback_mut().sink.state()
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&mut self) -> bool {
        self.0.callback_mut().sink.is_foreign()
    }

    fn emit_error(&mut self, _error: Error) {}

    #[inline]
    fn should_emit_errors(&mut self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
        let read = |page: &str, few| read(page, &mut Few(few), &|| Ok(()));
        assert_eq!(read(page, 2), Ok(false));
        assert_eq!(read(page, 9), Ok(false));
        assert_eq!(read(page, 100), Ok(true));
        assert_eq!(read(&"<p a b c>x".repeat(1_000_000), 5), Ok(false));
    }

    #[test]
    fn a_check_can_stop_the_tokenizer() {
        let (page, checks) = ("<p a b c>x".repeat(1_000_000), Cell::new(0));
        let check = || {
            checks.set(checks.get() + 1);
            if checks.get() < 3 { Ok(()) } else { Err(Stop) }
        };
        assert_eq!(read(&page, &mut Few(usize::MAX), &check), Err(Stop));
        assert_eq!(checks.get(), 3);
    }
}
