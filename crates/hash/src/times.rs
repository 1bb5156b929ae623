//! Times as people and programs write them, in metadata and in fields of files.

/// The seconds since 1970 of a time by ISO 8601: a date, then optionally a time of day and its offset from
/// UTC. A time without an offset is in UTC.
pub fn seconds(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10).unwrap_or((text, ""));
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok().filter(|_| part.len() >= 2));
    let (year, month, day) =
        (parts.next()??, parts.next().unwrap_or(Some(1))?, parts.next().unwrap_or(Some(1))?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !date.contains('-') || parts.next().is_some()
    {
        return None;
    }
    let midnight = days(year, month, day) as f64 * 86_400.0;
    let Some(time) = rest.strip_prefix(['T', 't', ' ']) else {
        return rest.is_empty().then_some(midnight);
    };
    let end = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(end);
    let offset = match zone {
        "" | "Z" | "z" => 0.0,
        _ => {
            let clock = clock_seconds(&zone[1..])?;
            if zone.starts_with('-') { -clock } else { clock }
        }
    };
    Some(midnight + clock_seconds(clock.trim_end())? - offset)
}

/// The seconds of `hh`, `hh:mm`, `hhmm` or `hh:mm:ss.fff`.
fn clock_seconds(text: &str) -> Option<f64> {
    if text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return clock_seconds(&format!("{}:{}", &text[..2], &text[2..]));
    }
    let mut seconds = 0.0;
    for (part, (unit, most)) in text.split(':').zip([(3_600.0, 25.0), (60.0, 60.0), (1.0, 61.0)]) {
        let value = part.parse::<f64>().ok().filter(|value| (0.0..most).contains(value))?;
        seconds += value * unit;
    }
    (text.split(':').count() <= 3).then_some(seconds)
}

/// The days from 1970-01-01 to a date of the Gregorian calendar (Hinnant, "chrono-compatible low-level date
/// algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for text in
            ["2018-02-14T00:28:07Z", "1970-01-01T00:00:00Z", "2000-02-29T23:59:59Z", "1969-12-31T00:00:01Z"]
        {
            let expected = match humantime::parse_rfc3339(text) {
                Ok(time) => time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64(),
                Err(_) => -86_399.0,
            };
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        let of = |text| (seconds(text).unwrap() * 1_000.0) as i64;
        assert_eq!(of("2026-11-25T10:00:00+01:00"), of("2026-11-25 09:00"));
        assert_eq!(of("2026-11-25T10:00:00.500-0130"), of("2026-11-25T11:30:00.5Z"));
        assert_eq!((of("2026-11"), of("2026-11-25")), (of("2026-11-01T00:00"), of("2026-11-25T00Z")));
        for wrong in
            ["", "now", "2026", "2026-13-01", "2026-11-25T", "2026-11-25x", "2026-11-25T10:99", "25-11-2026"]
        {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
