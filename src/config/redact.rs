//! Messages without the passwords of the URLs in them.
//!
//! A password may contain any character, so that it is not always clear where it ends. In doubt more is
//! hidden. An `@` that no user and password stand before is left: e-mail addresses, `copies-64@1`, names of
//! packages, paths.

/// Replaces the user and password of each URL, with or without a scheme, and its query by `***`.
///
/// ```
/// use lookalike::config::redacted;
/// let text = redacted("no collector at http://user:p@ss@localhost:4318/");
/// assert_eq!(text, "no collector at http://***@localhost:4318/");
/// assert_eq!(redacted("\"user:pass@localhost:4318\""), "\"***@localhost:4318\"");
/// assert_eq!(redacted("at http://localhost/v1?token=abc, twice"), "at http://localhost/v1?***, twice");
/// assert_eq!(redacted("p.toml:3: like is \"copies-46@1\""), "p.toml:3: like is \"copies-46@1\"");
/// ```
pub fn redacted(text: &str) -> String {
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A line. What stands between quotation marks is one value, and may have spaces in it.
fn line(line: &str) -> String {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in line.match_indices('"').filter(|(at, _)| is_quotation_mark(line, *at)) {
        parts.push(&line[start..at]);
        start = at + 1;
    }
    parts.push(&line[start..]);
    let parts = parts.into_iter().enumerate().map(|(number, part)| {
        // After an odd number of quotation marks: a value that ends with the next one.
        if number % 2 == 1 { value(part) } else { words(part) }
    });
    parts.collect::<Vec<_>>().join("\"")
}

/// Whether a value begins or ends here. In the middle of a word, the character is a part of a password.
fn is_quotation_mark(line: &str, at: usize) -> bool {
    let (before, after) = (line[..at].chars().next_back(), line[at + 1..].chars().next());
    let begins = before.is_none_or(|c| c.is_whitespace() || "([{=,:;".contains(c));
    let ends = after.is_none_or(|c| c.is_whitespace() || ")]},.;:".contains(c));
    before != Some('\\') && (begins || ends)
}

/// Text in which a space ends a URL, except within a password.
fn words(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let blank = rest.len() - rest.trim_start().len();
        let (space, from) = rest.split_at(blank);
        done.push_str(space);
        let mut end = from.find(char::is_whitespace).unwrap_or(from.len());
        if let Some(scheme) = from[..end].find("://")
            && has_open_password(&from[scheme + 3..end])
            && let Some(at) = from.rfind('@')
        {
            // The password has a space: it goes on to the last `@`.
            end = end.max(from[at..].find(char::is_whitespace).map_or(from.len(), |space| at + space));
        }
        let (word, after) = from.split_at(end);
        done += &value(word);
        rest = after;
    }
    done
}

/// Whether this begins like a user and a password, and has no `@` after them.
fn has_open_password(after_scheme: &str) -> bool {
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    let password = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = |text: &str| {
        let text = text.trim_end_matches(|c: char| !c.is_alphanumeric());
        text.bytes().all(|byte| byte.is_ascii_digit())
    };
    !after_scheme.contains('@') && !authority.starts_with('[') && !is_port(password)
}

/// A word, or all that stands between two quotation marks.
fn value(text: &str) -> String {
    match text.find("://") {
        Some(scheme) => {
            let (before, after) = text.split_at(scheme + 3);
            format!("{before}{}", without_query(&without_user(after)))
        }
        None => without_bare_user(text),
    }
}

/// What follows a scheme, without user and password.
fn without_user(after_scheme: &str) -> String {
    let Some((before, host)) = after_scheme.rsplit_once('@') else { return after_scheme.to_owned() };
    let authority = before.split(['/', '?', '#']).next().unwrap_or_default();
    // The `@` is in the authority, or it ends a password with a slash, or it is in the path.
    let is_in_path = authority.len() < before.len() && is_host(authority);
    if is_in_path {
        return after_scheme.to_owned();
    }
    format!("***@{host}")
}

/// Whether this is a host with or without a port, rather than a user with the beginning of a password.
fn is_host(authority: &str) -> bool {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "80"));
    let is_port = port.parse::<u16>().is_ok();
    let is_address = host == "localhost" || host.contains('.') || host.starts_with('[');
    !authority.contains('@') && is_port && (is_address || !authority.contains(':'))
}

/// Without the user and password before a host that has no scheme: `user:password@host`.
fn without_bare_user(text: &str) -> String {
    let Some((before, host)) = text.rsplit_once('@') else { return text.to_owned() };
    let Some(colon) = before.find(':') else { return text.to_owned() };
    let is_end = |c: char| c.is_whitespace() || "'`(=,".contains(c);
    let start = before[..colon].rfind(is_end).map_or(0, |at| at + 1);
    let (user, password) = (&before[start..colon], &before[colon + 1..]);
    let is_user = !user.is_empty() && !user.contains(['/', '\\']);
    let is_password = !password.is_empty() && !password.starts_with(char::is_whitespace);
    // `name:part@2` has a version in place of a host.
    let is_host = host.starts_with('[') || host.contains('.') || host.contains(char::is_alphabetic);
    if !is_user || !is_password || !is_host {
        return text.to_owned();
    }
    format!("{}***@{host}", &before[..start])
}

/// What follows a scheme, without the query.
fn without_query(after_scheme: &str) -> String {
    let end = after_scheme.find(char::is_whitespace).unwrap_or(after_scheme.len());
    let Some(query) = after_scheme[..end].find('?') else { return after_scheme.to_owned() };
    let (before, query) = after_scheme.split_at(query + 1);
    let end = query.find(|c: char| c.is_whitespace() || ",;)".contains(c)).unwrap_or(query.len());
    if end == 0 { after_scheme.to_owned() } else { format!("{before}***{}", &query[end..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_passwords_are_hidden_whatever_they_contain() {
        for (text, expected) in [
            ("at http://user:pass@host/", "at http://***@host/"),
            ("at http://user:p@ss@host/a", "at http://***@host/a"),
            ("at http://user:p/ss@host:4318", "at http://***@host:4318"),
            ("at http://user:p/s@s/w@host:4318", "at http://***@host:4318"),
            ("at http://user:12/ss@host", "at http://***@host"),
            ("at http://user:p?ss#x@host", "at http://***@host"),
            ("at https://token@host/a", "at https://***@host/a"),
            ("at http://user:my pass@host, twice", "at http://***@host, twice"),
            ("url is \"http://user:my pass@host\"", "url is \"http://***@host\""),
            ("url is \"user:my pass@host\"", "url is \"***@host\""),
            ("'user:p/a@b@host:1' is no URL", "'***@host:1' is no URL"),
            ("url is \"http://user:pa\\\"ss@host\"", "url is \"http://***@host\""),
            ("at http://user:pa\"ss@host", "at http://***@host"),
            ("KEY=user:pass@host", "KEY=***@host"),
            ("\"user:pass@10.0.0.1:80\" and user:p@[::1]:80", "\"***@10.0.0.1:80\" and ***@[::1]:80"),
            ("a http://a:b@c and http://d:e@f", "a http://***@c and http://***@f"),
            ("one http://a:b@c\ntwo http://d:e@f", "one http://***@c\ntwo http://***@f"),
            ("at http://a:b@host/v1?key=1&b=2 now", "at http://***@host/v1?*** now"),
            ("\"http://host/v1?key=a b\"", "\"http://host/v1?*** b\""),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn what_has_no_password_stays() {
        for text in [
            "p:3: profile \"house\": like is \"copies-46@1\"; the profiles are copies-64@1, copies-128@1",
            "house: copies-46@1 is no profile, copies-64@1 is",
            "write to: admin@example.org",
            "/srv/@data/x: not found",
            "/srv/a:b@c: not found",
            "no profile \"co:pies@2\"; there is \"a@1\"",
            "package @scope/name@1.2: unknown",
            "no http://localhost: is it up? ask me@example.org",
            "http://localhost:8080/documents/a@b: not found",
            "http://127.0.0.1:8080/documents/a@b and c@d",
            "http://[::1]:8080/documents/a@b",
            "https://example.org/@me",
            "http://host/@me?",
            "say \"who: me@here\"",
            "the id \"a@b\" and \"b:\" @",
            "",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
