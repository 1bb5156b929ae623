//! Recognizes by its words what a page says about itself: notices about cookies and consent, about
//! subscriptions that a reader needs, and requests to subscribe to a newsletter or to follow an account.
//!
//! Guarantees: time proportional to the text. Not here: where such a text stands in a page (see
//! `boilerplate`), which decides whether it is removed. The phrases are those by which sites speak of
//! themselves and to the reader, in about twenty languages: "we use cookies" and not "cookies".

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// The most bytes of a notice about a subscription, or of a request.
const SHORT: usize = 500;

/// The kind of a text that is no part of an article.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// About cookies or consent to the use of data.
    Consent,
    /// That only subscribers can read on.
    Paywall,
    /// A request to follow or to subscribe, a reservation of rights, a label of an advertisement.
    Solicitation,
}

/// A list of phrases, separated by commas.
#[derive(Clone, Copy)]
enum List {
    /// The use of cookies by this site.
    Cookies,
    /// Data and consent, in a notice only next to partners.
    Data,
    Partners,
    /// That this text is for subscribers.
    Subscribers,
    /// To subscribe, in a notice only next to what a reader can do.
    Subscription,
    Access,
    /// Requests and reservations.
    Request,
    /// To follow, in a request only next to a network.
    Follow,
    Network,
}

const LISTS: [(List, &str); 9] = [
    (
        List::Cookies,
        "we use cookies,site uses cookies,website uses cookies,our use of cookies,the use of cookies by,\
         to our cookie,uses cookies to,use cookies to,use cookies and,use of cookies.,cookie policy,\
         cookie settings,cookie notice,cookie preferences,accept cookies,accept all cookies,manage cookies,\
         cookies to improve,cookies to give,cookies to ensure,cookies to provide,cookies to personali,\
         cookies and similar,verwendet cookies,verwenden cookies,nutzt cookies,nutzen cookies,\
         verwendung von cookies,einsatz von cookies,cookie-einstellungen,setzen cookies,setzt cookies,\
         utilise des cookies,utilisons des cookies,utilisation de cookies,utilisation des cookies,\
         accepter les cookies,politique de cookies,gérer les cookies,utiliza cookies,utilizamos cookies,\
         usamos cookies,usa cookies,uso de cookies,política de cookies,aceptar cookies,\
         aceptar las cookies,aceitar cookies,utilizza cookie,utilizza i cookie,utilizziamo cookie,\
         utilizziamo i cookie,usa i cookie,uso dei cookie,uso di cookie,utilizzo dei cookie,sui cookie,\
         gebruikt cookies,gebruiken cookies,gebruik van cookies,plaatst cookies,cookiebeleid,pliki cookie,\
         plików cookie,ciasteczek,używa cookies,использует файлы cookie,\
         используем файлы cookie,использование файлов cookie,\
         использованием файлов cookie,использует cookie,\
         используем cookie,использует куки,используем куки,\
         файли cookie,файлів cookie,çerezleri kullan,çerez kullan,çerez politika,\
         använder cookies,användningen av cookies,bruger cookies,bruker cookies,informasjonskapsler,\
         evästeitä,soubory cookie,souborů cookie,používá cookies,sütiket,folosește cookie,\
         χρησιμοποιεί cookies,χρησιμοποιούμε cookies,使用cookie,使用 cookie,\
         cookie政策,cookie 政策,接受cookie,接受 cookie,cookieを使用,cookie を使用,\
         cookieを利用,cookieの使用,クッキーを使用,クッキーを利用,쿠키를 사용,\
         쿠키를 이용,쿠키 사용,ملفات تعريف الارتباط,\
         कुकीज़ का उपयोग,sử dụng cookie,ใช้คุกกี้,\
         menggunakan cookie",
    ),
    (
        List::Data,
        "consent,your privacy,personal data,legitimate interest,your device,einwilligung,zustimm,\
         ihre daten,consentement,vos données,consentimiento,sus datos,consenso,consentimento,seus dados,\
         toestemming,zgod,согласи,同意,동의",
    ),
    (
        List::Partners,
        " our partners,partners store,and our vendors,our vendors,partners and we,and our advertis,\
         unsere partner,unseren partnern,nos partenaires,nuestros socios,nostri partner,nossos parceiros,\
         onze partners,nasi partnerzy,наши партн,我们的合作伙伴,パートナー企業,\
         파트너",
    ),
    (
        List::Subscribers,
        "to continue reading,already a subscriber,already a member?,subscribers only,for subscribers only,\
         exclusive to subscribers,subscriber-only,subscriber exclusive,subscribe to read,\
         subscribe to continue,subscribe to unlock,your free articles,free articles left,\
         free articles remaining,free article limit,log in to read,sign in to read,register to read,\
         unlock this article,to read the full article,become a subscriber,jetzt weiterlesen,\
         um weiterzulesen,artikel ist exklusiv,nur für abonnenten,bereits abonnent,\
         diesen artikel weiterlesen,réservé aux abonnés,réservée aux abonnés,\
         réservé à nos abonnés,pour lire la suite,déjà abonné,de cet article à lire,\
         para suscriptores,suscríbete para,para seguir leyendo,para continuar leyendo,ya eres suscriptor,\
         riservato agli abbonati,per continuare a leggere,sei già abbonato,exclusivo para assinantes,\
         assine para,para continuar lendo,já é assinante,voor abonnees,om verder te lezen,\
         dla prenumeratorów,aby czytać dalej,доступен подписчикам,\
         только для подписчиков,доступно по подписке,\
         чтобы продолжить чтение,订阅后,会员专享,付费阅读,登录后阅读,\
         訂閱後,会員限定,有料会員,有料記事,続きを読むには,구독자 전용,\
         유료회원,계속 읽으려면",
    ),
    (
        List::Subscription,
        "subscribe,subscription,membership,abonnieren,abonnement,abonnez,abonner,suscríb,suscrip,abbon,\
         assine,assinatura,prenumer,подпис,订阅,訂閱,会員,구독",
    ),
    (
        List::Access,
        "unlimited access,full access,free trial,cancel any,log in,sign in,continue reading,per month,\
         einloggen,anmelden,weiterlesen,lire la suite,connectez-vous,iniciar sesión,inicia sesión,\
         seguir leyendo,accedi,continua a leggere,faça login,inloggen,verder lezen,zaloguj,войдите,\
         продолжить чтение,继续阅读,登录,ログイン,로그인",
    ),
    (
        List::Request,
        "all rights reserved,to our newsletter,for our newsletter,our free newsletter,our daily newsletter,\
         our weekly newsletter,your inbox,sign up for our,sign up for the,sign up to our,sign up here,\
         subscribe now,subscribe to our,subscribe and stay,click here to get the,you may also like,\
         you might also like,may earn a commission,may earn an affiliate,may not be published,\
         abonnez-vous à,unseren newsletter,suscríbete a,iscriviti alla,assine nossa,assine a,\
         подпишитесь на,подписывайтесь,читайте также,订阅我们,\
         版权所有,未经授权,未经许可,無断転載,무단전재",
    ),
    (
        List::Follow,
        "follow us,follow him,follow her,follow me,follow them,find us,join us,like us,folgen sie uns,\
         folge uns,suivez-nous,síguenos,seguici,siga-nos,volg ons,следите за",
    ),
    (List::Network, "twitter,facebook,instagram,telegram,youtube,linkedin,whatsapp,tiktok,mastodon"),
];

/// Labels of advertisements, which are whole blocks.
const LABELS: [&str; 16] = [
    "advertisement",
    "advertisements",
    "advert",
    "sponsored",
    "anzeige",
    "werbung",
    "publicité",
    "publicidad",
    "pubblicità",
    "publicidade",
    "advertentie",
    "реклама",
    "广告",
    "広告",
    "スポンサードリンク",
    "광고",
];

/// The phrases of all lists: the automaton that finds them, and the list of each.
static PHRASES: LazyLock<Option<(AhoCorasick, Vec<List>)>> = LazyLock::new(|| {
    let of_list = |(list, phrases): (List, &'static str)| phrases.split(',').map(move |it| (it, list));
    let (phrases, lists): (Vec<_>, Vec<_>) = LISTS.into_iter().flat_map(of_list).unzip();
    AhoCorasick::new(phrases).ok().map(|automaton| (automaton, lists))
});

/// The notice that a block of text is; `None` if it is not recognized as one.
pub(super) fn notice_in(text: &str) -> Option<Notice> {
    let words = normalised(text);
    let (automaton, lists) = PHRASES.as_ref()?;
    let mut found = [false; LISTS.len()];
    for phrase in automaton.find_overlapping_iter(&words) {
        found[lists[phrase.pattern().as_usize()] as usize] = true;
    }
    let has = |list: List| found[list as usize];
    let is_short = words.len() <= SHORT;
    if has(List::Cookies) || (has(List::Data) && has(List::Partners)) {
        Some(Notice::Consent)
    } else if !is_short {
        None
    } else if has(List::Subscribers) || (has(List::Subscription) && has(List::Access)) {
        Some(Notice::Paywall)
    } else if has(List::Request)
        || (has(List::Follow) && has(List::Network))
        || LABELS.contains(&words.trim())
    {
        Some(Notice::Solicitation)
    } else {
        None
    }
}

/// A text in lower case, with single spaces between and around its words and with straight apostrophes.
fn normalised(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 2);
    words.push(' ');
    for word in text.split_whitespace() {
        for c in word.chars() {
            match c {
                '\u{2019}' => words.push('\''),
                c => words.extend(c.to_lowercase()),
            }
        }
        words.push(' ');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_recognized_in_many_languages() {
        for text in [
            "We use cookies to improve your experience.",
            "This  website\nuses cookies. By continuing you agree.",
            "We and our partners store information on your device.",
            "Diese Website verwendet Cookies, um Inhalte zu personalisieren.",
            "Nous utilisons des cookies pour mesurer l’audience.",
            "Utilizamos cookies propias y de terceros.",
            "Questo sito utilizza i cookie.",
            "Deze site maakt gebruik van cookies.",
            "Мы используем файлы cookie.",
            "本网站使用Cookie以改善您的体验。",
            "当サイトではクッキーを使用しています。",
            "이 사이트는 쿠키를 사용합니다.",
        ] {
            assert_eq!(notice_in(text), Some(Notice::Consent), "{text}");
        }
        for text in [
            "Already a subscriber? Sign in",
            "You have read your free articles for this month.",
            "Subscribe for unlimited access. Cancel anytime.",
            "Jetzt weiterlesen mit dem Probeabo",
            "Cet article est réservé aux abonnés.",
            "Contenido exclusivo para suscriptores",
            "Contenuto riservato agli abbonati",
            "Dit artikel is alleen voor abonnees",
            "Материал доступен подписчикам",
            "订阅后继续阅读全文",
            "この記事は会員限定です。",
            "구독자 전용 기사입니다.",
        ] {
            assert_eq!(notice_in(text), Some(Notice::Paywall), "{text}");
        }
        for text in ["In your inbox.", "Follow us on Twitter", " Advertisement ", "читайте также"]
        {
            assert_eq!(notice_in(text), Some(Notice::Solicitation), "{text}");
        }
    }

    #[test]
    fn articles_about_the_same_things_are_no_notices() {
        for text in [
            "",
            "Bake the cookies at 180 degrees for twelve minutes and let them cool.",
            "The court ruled that consent must be given before data is stored.",
            "The company lost two million subscribers in the quarter.",
            "She followed him to Paris, where Facebook had opened an office.",
            "The advertisement was shown twice.",
        ] {
            assert_eq!(notice_in(text), None, "{text}");
        }
        let long = format!("{} to continue reading", "word ".repeat(SHORT / 5));
        assert_eq!(notice_in(&long), None);
    }
}
