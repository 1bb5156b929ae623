//! What the pages have in common that this command writes: they need no other file and no network, and texts
//! in them are never markup.

/// The beginning of a page. Only the style, and scripts with this nonce, are obeyed.
pub(super) fn head(title: &str, style: &str, nonce: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style nonce=\"{nonce}\">\n\
         body{{font:16px sans-serif;margin:1rem auto;padding:0 1rem}}\
         table{{border-collapse:collapse}}\
         td,th{{padding:.15rem 1rem .15rem 0;border-bottom:1px solid #ddd;overflow-wrap:anywhere;\
         text-align:left}}\n{style}</style></head>\n<body>\n<h1>{title}</h1>\n"
    )
}

/// A text as it stands in a page.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
