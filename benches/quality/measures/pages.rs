//! Web pages built from arbitrary texts: each text is the article of two pages of different sites. This
//! tests whether the result depends on the page around the article.
//!
//! There are six sites of different kinds: a newspaper, a blog, a forum, a portal built from tables, an
//! online manual and the magazine of a shop; three are Chinese. Each page has the fixed parts of its site
//! (menus, notices, imprint) and parts that change (teasers of other texts, comments). Not here: pages that
//! scripts build.

use lookalike_eval::random::Random;
use lookalike_eval::{Labels, Set};

use super::sentences::sentences;

/// The markup of a site around an article.
struct Site {
    name: &'static str,
    /// The markup before the article.
    head: &'static str,
    /// The markup before and after the article.
    article: [&'static str; 2],
    /// The markup before and after a paragraph of the article.
    paragraph: [&'static str; 2],
    /// The markup before and after a teaser of another text.
    teaser: [&'static str; 2],
    /// The markup between the article and the teasers.
    middle: &'static str,
    /// The markup after the teasers.
    foot: &'static str,
}

const SITES: [Site; 6] = [
    Site {
        name: "newspaper",
        head: "<header><a href=/>The Morning Packet</a><nav><ul><li><a href=/world>World</a><li><a \
               href=/home>Home affairs</a><li><a href=/money>Money</a><li><a href=/sport>Sport</a><li><a \
               href=/arts>Arts</a><li><a href=/weather>Weather</a></ul></nav></header><div \
               class=cookie-banner><p>We and our 214 partners store and read information on your device. You \
               may refuse, and the page looks the same.</p><button>Accept all</button><button>Choose</button>\
               </div><main>",
        article: ["<article class=story><h1>From our correspondents</h1>", "</article>"],
        paragraph: ["<p>", "</p>"],
        teaser: ["<li class=most-read><a href=#>", "</a></li>"],
        middle: "<aside class=most-read><h2>Most read</h2><ol>",
        foot: "</ol><div class=newsletter><h3>The evening letter</h3><p>Five stories at six o'clock, every \
               weekday.</p><form><input type=email><button>Subscribe</button></form></div></aside></main>\
               <footer><p>Printed and published at Quay Street. Complaints to the readers' editor.</p><a \
               href=/terms>Terms</a> <a href=/privacy>Privacy</a></footer>",
    },
    Site {
        name: "blog",
        head: "<div id=wrap><div id=header><h1><a href=/>notes from a small desk</a></h1><p \
               class=tagline>things I would forget otherwise</p></div><div id=content><div class=post>",
        article: ["<div class=entry-content>", "</div>"],
        paragraph: ["<p>", "</p>"],
        teaser: ["<div class=comment><span class=author>reader wrote:</span><p>", "</p></div>"],
        middle: "<div class=share><a href=#>share</a> <a href=#>mail</a> <a href=#>print</a></div></div><div \
                 id=comments><h3>comments</h3>",
        foot: "</div></div><div id=sidebar><h3>archive</h3><ul><li>January</li><li>February</li><li>March\
               </li><li>April</li></ul><h3>tags</h3><ul><li>bread</li><li>bicycles</li><li>databases</li>\
               </ul></div><div id=footer>made by hand, with cold tea</div></div>",
    },
    Site {
        name: "forum",
        head: "<table class=head width=100%><tr><td><b>跨海大桥论坛</b></td>\
               <td>首页 | 版块 | 精华 | 搜索 \
               | 登录 | 注册</td></tr></table>\
               <div class=path>论坛首页 &gt; 综合讨论 &gt; 转载</div>",
        article: ["<div class=postbody><div class=postcontent>", "</div></div>"],
        paragraph: ["", "<br><br>"],
        teaser: ["<div class=reply><i>楼上说得好。引用:</i> ", "</div>"],
        middle: "<div class=signature>路漫漫其修远兮</div><div class=tools>回复 | 举报 | 收藏 \
                 | 只看楼主</div>",
        foot: "<div class=foot>本站言论只代表发言者个人观点,\
               与本站立场无关。站长统计 \
               | 联系我们 | 手机版</div>",
    },
    Site {
        name: "portal",
        head: "<center><table width=960><tr><td colspan=3>新闻 财经 科技 体育 娱乐 汽车 \
               房产 教育 健康 旅游 军事 历史</td></tr>\
               <tr><td width=160 valign=top><a href=#>今日头条</a><br>\
               <a href=#>滚动新闻</a><br><a href=#>专题</a><br><a href=#>图片</a><br>\
               广告热线:开户立减,\
               限时三天,点击了解详情</td><td width=600 valign=top>",
        article: ["<h2>正文</h2><div id=artibody>", "</div><p align=right>(责任编辑:值班)</p>"],
        paragraph: ["<p>　　", "</p>"],
        teaser: ["<a href=#>", "</a><br>"],
        middle: "</td><td width=200 valign=top><b>相关阅读</b><br>",
        foot: "</td></tr><tr><td colspan=3 align=center>\
               关于我们 - 广告服务 - 诚聘英才 - 版权声明<br>\
               未经书面授权,不得转载、摘编或以其它方式使用</td></tr></table></center>",
    },
    Site {
        name: "manual",
        head: "<div class=layout><nav class=sidebar><ol><li><a href=#>Introduction</a><ol><li><a \
               href=#>Installation</a><li><a href=#>First steps</a></ol><li><a href=#>Guide</a><ol><li><a \
               href=#>Concepts</a><li><a href=#>Recipes</a><li><a href=#>Troubles</a></ol><li><a \
               href=#>Reference</a></ol></nav><div class=page><div class=menu-bar>Search this manual</div>",
        article: ["<main><section>", "</section></main>"],
        paragraph: ["<p>", "</p>"],
        teaser: ["<li><a rel=related href=#>", "</a></li>"],
        middle: "<nav class=see-also><h4>See also</h4><ul>",
        foot: "</ul></nav><div class=pager><a rel=prev href=#>Previous</a> <a rel=next href=#>Next</a></div>\
               <p class=edit>Found a mistake? <a href=#>Edit this page</a></p></div></div>",
    },
    Site {
        name: "magazine",
        head: "<div class=topbar>满199减30 免运费 七天无理由退货</div>\
               <div class=shop-nav><a href=#>\
               全部商品</a><a href=#>新品</a><a href=#>会员</a><a href=#>购物车</a></div>\
               <div class=container>",
        article: ["<div class=magazine-article itemprop=articleBody>", "</div>"],
        paragraph: ["<p class=text>", "</p>"],
        teaser: ["<div class=product-card><img src=x alt=><span>", "</span><b>¥ 128.00</b></div>"],
        middle: "<div class=recommend><h4>猜你喜欢</h4>",
        foot: "</div></div><div class=service>\
               客服电话工作日九点到十八点 | 关注公众号领取优惠券</div>",
    },
];

/// The number of teasers of a page, and the most characters of each.
const TEASERS: usize = 6;
const TEASER: usize = 60;

/// A set of two pages for each text. `text_of` extracts the text of a page.
pub fn with_pages(name: &str, texts: &[String], seed: u64, text_of: impl Fn(&str) -> String) -> Set {
    let mut set = Set { name: name.to_owned(), ..Set::default() };
    let mut labels = Labels::default();
    let mut random = Random(seed);
    for (number, text) in texts.iter().enumerate() {
        let first = number % SITES.len();
        let second = (first + 1 + random.below(SITES.len() - 1)) % SITES.len();
        let pair = (set.texts.len() as u32, set.texts.len() as u32 + 1);
        for site in [first, second] {
            set.texts.push(text_of(&page(&SITES[site], text, texts, &mut random)));
        }
        labels.positive.insert(pair);
        let mut sites = [SITES[first].name, SITES[second].name];
        sites.sort_unstable();
        set.edits.push((pair, sites.join(" and ")));
    }
    set.labels = labels;
    set
}

/// A page of a site.
fn page(site: &Site, text: &str, others: &[String], random: &mut Random) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut page =
        format!("<!DOCTYPE html><html><head><title>{}</title></head><body>{}", site.name, site.head);
    page += site.article[0];
    // Each paragraph has three sentences.
    for paragraph in sentences(text).chunks(3) {
        page += site.paragraph[0];
        page += &escaped(&paragraph.concat());
        page += site.paragraph[1];
    }
    page += site.article[1];
    page += site.middle;
    for _ in 0..TEASERS {
        let other = &others[random.below(others.len())];
        let teaser: String = sentences(other).first().unwrap_or(&"").trim().chars().take(TEASER).collect();
        page += site.teaser[0];
        page += &escaped(&teaser);
        page += site.teaser[1];
    }
    page += site.foot;
    page + "</body></html>"
}
