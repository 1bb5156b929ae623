//! Source code as features: adjacent tokens, without comments and without the names of identifiers.
//!
//! The rules are the same for every language, so they are rough. `//`, `/* */` and `#` begin comments, except
//! for `#[`, `#!` and the common directives of C. Text between double quotes is a literal, up to the end of
//! its line. Words that are keywords in a common language are kept, all others are identifiers and have one
//! form. Single quotes and all other characters are tokens of their own.
//!
//! Guarantees: renamed identifiers, comments, spaces, line breaks and U+FFFD, which stands for stray bytes,
//! change nothing. Costs: linear time. Not
//! here: the grammar of any language; comments of other forms, such as `--`, which count as code.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The parameters of the cut of source code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodePlan {
    /// The number of adjacent tokens of a gram, 1 or more.
    pub tokens: usize,
    /// Whether characters that are no part of a word, a number or a literal are tokens. Programs that
    /// disguise a copy add and remove braces and brackets.
    pub keeps_marks: bool,
}

impl CodePlan {
    /// The plan of fingerprints.
    pub const BITS: CodePlan = CodePlan { tokens: 10, keeps_marks: true };
    /// The plan of sets that are compared by Jaccard similarity.
    pub const SETS: CodePlan = CodePlan { tokens: 8, keeps_marks: false };
}

/// The form of every identifier.
const IDENTIFIER: &str = "@";

/// Words that are not identifiers, in order: keywords, and the names of types that are built into a language.
const KEYWORDS: [&str; 156] = [
    "False",
    "None",
    "Self",
    "True",
    "abstract",
    "and",
    "as",
    "assert",
    "async",
    "auto",
    "await",
    "become",
    "begin",
    "bool",
    "boolean",
    "box",
    "break",
    "byte",
    "case",
    "catch",
    "chan",
    "char",
    "class",
    "const",
    "continue",
    "crate",
    "debugger",
    "def",
    "default",
    "defer",
    "del",
    "delete",
    "do",
    "double",
    "dyn",
    "elif",
    "else",
    "end",
    "ensure",
    "enum",
    "except",
    "explicit",
    "export",
    "extends",
    "extern",
    "f32",
    "f64",
    "fallthrough",
    "false",
    "final",
    "finally",
    "float",
    "fn",
    "for",
    "friend",
    "from",
    "func",
    "function",
    "global",
    "go",
    "goto",
    "i16",
    "i32",
    "i64",
    "i8",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "inline",
    "instanceof",
    "int",
    "interface",
    "is",
    "isize",
    "lambda",
    "let",
    "local",
    "long",
    "loop",
    "macro",
    "map",
    "match",
    "mod",
    "move",
    "mut",
    "namespace",
    "native",
    "new",
    "nonlocal",
    "not",
    "null",
    "operator",
    "or",
    "override",
    "package",
    "pass",
    "priv",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "range",
    "ref",
    "register",
    "rescue",
    "return",
    "select",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "str",
    "strictfp",
    "struct",
    "super",
    "switch",
    "synchronized",
    "template",
    "then",
    "this",
    "throw",
    "throws",
    "trait",
    "transient",
    "true",
    "try",
    "type",
    "typedef",
    "typename",
    "typeof",
    "u16",
    "u32",
    "u64",
    "u8",
    "undefined",
    "union",
    "unless",
    "unsafe",
    "unsigned",
    "unsized",
    "until",
    "use",
    "using",
    "usize",
    "var",
    "virtual",
    "void",
    "volatile",
    "where",
    "while",
    "with",
    "yield",
];

/// Directives after `#` that are code.
const DIRECTIVES: [&str; 6] = ["include", "define", "if", "endif", "else", "pragma"];

/// Passes the adjacent tokens of a source text, with spaces between them, to `each`, once per occurrence. A
/// text of fewer tokens than a gram is passed whole.
///
/// ```
/// use lookalike_text::features::{CodePlan, token_grams};
/// let found = |tokens, keeps_marks| {
///     let mut found = Vec::new();
///     let text = "if (a == \"b c\") // c\n return x1;";
///     token_grams(text, CodePlan { tokens, keeps_marks }, |gram| found.push(gram.to_owned()));
///     found
/// };
/// assert_eq!(found(5, true)[..2], ["if ( @ = =", "( @ = = \"b c\""]);
/// assert_eq!(found(4, false), ["if @ \"b c\" return", "@ \"b c\" return @"]);
/// ```
pub fn token_grams(text: &str, plan: CodePlan, mut each: impl FnMut(&str)) {
    let count = plan.tokens;
    let whole = if text.contains(char::REPLACEMENT_CHARACTER) {
        Cow::Owned(text.replace(char::REPLACEMENT_CHARACTER, ""))
    } else {
        Cow::Borrowed(text)
    };
    let text = &*whole;
    let mut last: VecDeque<&str> = VecDeque::with_capacity(count);
    let mut gram = String::new();
    let mut emit = |tokens: &VecDeque<&str>| {
        gram.clear();
        for token in tokens {
            if !gram.is_empty() {
                gram.push(' ');
            }
            gram.push_str(token);
        }
        each(&gram);
    };
    let (mut rest, mut is_passed) = (text, false);
    while let Some((token, after)) = next_token(rest) {
        rest = after;
        if !plan.keeps_marks && !is_word(token) {
            continue;
        }
        if last.len() == count {
            last.pop_front();
        }
        last.push_back(token);
        if last.len() == count {
            emit(&last);
            is_passed = true;
        }
    }
    if !is_passed && !last.is_empty() {
        emit(&last);
    }
}

/// The first token of a text and what is after it.
fn next_token(text: &str) -> Option<(&str, &str)> {
    let mut rest = text.trim_start();
    while let Some(length) = comment(rest) {
        rest = rest[length..].trim_start();
    }
    let first = rest.chars().next()?;
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let until = |is_part: &dyn Fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let length = match first {
        '"' => literal(rest),
        _ if first.is_numeric() => until(&|c| in_word(c) || c == '.'),
        _ if in_word(first) => until(&in_word),
        _ => first.len_utf8(),
    };
    let (token, after) = rest.split_at(length);
    let is_identifier = in_word(first) && !first.is_numeric() && KEYWORDS.binary_search(&token).is_err();
    Some((if is_identifier { IDENTIFIER } else { token }, after))
}

/// Whether a token is an identifier, a keyword, a number or a literal.
fn is_word(token: &str) -> bool {
    token == IDENTIFIER || token.starts_with(|c: char| c == '"' || c == '_' || c.is_alphanumeric())
}

/// The bytes of the comment at the beginning of a text.
fn comment(text: &str) -> Option<usize> {
    let line = || text.find('\n').unwrap_or(text.len());
    if text.starts_with("//") {
        return Some(line());
    }
    if let Some(inner) = text.strip_prefix("/*") {
        return Some(inner.find("*/").map_or(text.len(), |at| at + 4));
    }
    let after = text.strip_prefix('#')?;
    let is_code = after.starts_with(['[', '!']) || DIRECTIVES.iter().any(|word| after.starts_with(word));
    (!is_code).then(line)
}

/// The bytes of the literal at the beginning of a text: up to the next double quote without a backslash
/// before it, or to the end of the line.
fn literal(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return at,
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = c == '\\' && !is_escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        token_grams(text, CodePlan { tokens: 1, keeps_marks: true }, |token| found.push(token.to_owned()));
        found
    }

    #[test]
    fn comments_are_dropped_and_identifiers_have_one_form() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("// all\n/* of\n it */ # this", &[]),
            ("/* open", &[]),
            ("#[test] #!x", &["#", "[", "@", "]", "#", "!", "@"]),
            ("#include <a.h>", &["#", "@", "<", "@", ".", "@", ">"]),
            ("let x_1 = 0x1f.5;", &["let", "@", "=", "0x1f.5", ";"]),
            (r#"f("a \" // b", 'c')"#, &["@", "(", r#""a \" // b""#, ",", "'", "@", "'", ")"]),
            ("\"open\nnext", &["\"open", "@"]),
            ("变量 = é", &["@", "=", "@"]),
            ("a\u{fffd}b \u{fffd}= re\u{fffd}turn", &["@", "=", "return"]),
        ];
        for (text, expected) in cases {
            assert_eq!(&tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn a_short_text_is_one_gram() {
        let mut found = Vec::new();
        token_grams("a + 1", CodePlan::BITS, |gram| found.push(gram.to_owned()));
        assert_eq!(found, ["@ + 1"]);
    }

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted_by(|a, b| a < b));
    }

    proptest::proptest! {
        #[test]
        fn names_comments_and_spaces_change_nothing(
            names in "[a-dxyz_]{2,9}",
            gaps in proptest::collection::vec("[ \n\t]{1,3}|/\\* [a-z\"]{0,5} \\*/| // [a-z]{0,5}\n", 12),
        ) {
            let plain = ["if", "(", "name", "<", "2", ")", "{", "name", "=", "name", ";", "}"];
            let name = format!("n{names}");
            let edited = plain.iter().zip(&gaps).map(|(token, gap)| token.replace("name", &name) + gap);
            proptest::prop_assert_eq!(tokens(&edited.collect::<String>()), tokens(&plain.join(" ")));
        }

        #[test]
        fn grams_are_those_of_the_list_of_tokens(text in "[a-c1 \"/*#\n'\\\\(]{0,40}", count in 1_usize..6) {
            let all = tokens(&text);
            let mut found = Vec::new();
            let plan = CodePlan { tokens: count, keeps_marks: true };
            token_grams(&text, plan, |gram| found.push(gram.to_owned()));
            let expected: Vec<String> = if all.is_empty() {
                Vec::new()
            } else {
                all.windows(count.min(all.len())).map(|gram| gram.join(" ")).collect()
            };
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
