//! The dashboard in a real browser, driven through WebDriver: `MEMFOLD_BROWSER=1` where `chromedriver` is installed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use memfold::machine::Stopwatch;
use memfold_tests::{PlainMemory, memory, unit_vector};
use serde_json::{Value, json};

use crate::support::{Answer, Server, TestFolder};

/// The key under which WebDriver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser that ends with the test.
struct Browser {
    driver: Child,
    address: String,
    session: String,
    base: String,
}

impl Browser {
    /// Nothing where the test was not asked for.
    fn open(server: &Server) -> Option<Self> {
        if std::env::var_os("MEMFOLD_BROWSER").is_none() {
            report_skipped();
            return None;
        }
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("MEMFOLD_BROWSER needs chromedriver");
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
        });
        // It has to be read, or the driver waits.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self {
            driver,
            address: format!("127.0.0.1:{}", port.unwrap()),
            session: String::new(),
            base: format!("http://{}", server.address),
        };
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1024,900"];
        let options = json!({ "args": arguments });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": options, "unhandledPromptBehavior": "ignore" } } });
        let started = browser.ask("POST", "/session", &wanted);
        browser.session = started["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let host = &self.address;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The driver leaves connections open.
        let answer = Answer::next(&mut BufReader::new(stream));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()["value"].clone()
    }

    #[track_caller]
    fn of_session(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    #[track_caller]
    fn go(&self, path: &str) {
        self.of_session("/url", &json!({ "url": format!("{}{path}", self.base) }));
    }

    #[track_caller]
    fn run(&self, script: &str) -> Value {
        self.of_session("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until a part of the page is there, and returns it.
    #[track_caller]
    fn wait(&self, xpath: &str) -> String {
        let waited = Stopwatch::start();
        loop {
            let found = self.of_session("/elements", &json!({ "using": "xpath", "value": xpath }));
            if let Some(element) = found.as_array().and_then(|found| found.first()) {
                return element[ELEMENT].as_str().unwrap().to_owned();
            }
            let page = || self.run("return document.body.innerText");
            assert!(waited.seconds() < PATIENCE.as_secs_f64(), "no {xpath} on {}", page());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn click(&self, xpath: &str) {
        let element = self.wait(xpath);
        self.of_session(&format!("/element/{element}/click"), &json!({}));
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn report_skipped() {
    eprintln!("skipped: MEMFOLD_BROWSER=1 drives a browser, where chromedriver is installed");
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            // A failed test ends the driver all the same.
            let _closed = std::panic::catch_unwind(|| self.ask("DELETE", &path, &json!({})));
        }
        let _killed = self.driver.kill();
        let _ended = self.driver.wait();
    }
}

#[test]
fn a_first_visit_ends_with_a_plan_approved_applied_and_undone() {
    let dir = TestFolder::new();
    let server = dir.write();
    let Some(browser) = Browser::open(&server) else { return };
    browser.go("/");
    browser.click("//button[text()='Make a plan now']");
    // The script follows the job to its end without a click.
    browser.wait("//h1/small[text()='done']");
    browser.click("//dd/a[starts-with(@href, '/ui/plan?')]");
    browser.click("//article//button[text()='Approve']");
    browser.click("//button[text()='Apply 1 approved']");
    browser.wait("//h1/small[text()='done']");
    assert_eq!(dir.count("SELECT count(*) FROM stm"), 3);
    browser.click("//button[text()='Undo this run']");
    browser.wait("//h1[starts-with(normalize-space(), 'undo')]/small[text()='done']");
    assert_eq!(dir.count("SELECT count(*) FROM stm"), 4);
    browser.click("//nav/a[text()='Runs']");
    browser.wait("//td[text()='1 of 1']");
}

#[test]
fn no_text_of_a_memory_runs() {
    let rows = hostile();
    let dir = TestFolder::with(&rows);
    let server = dir.write();
    let Some(browser) = Browser::open(&server) else { return };
    let (plan, _) = server.plan(&json!({ "save_plan": true }));
    let mut pages = vec!["/ui".to_owned(), "/ui/conflicts".to_owned()];
    pages.extend((0..8).map(|page| format!("/ui/plan?id={plan}&page={page}")));
    for row in rows.iter().step_by(2) {
        let hex: String = row.id.bytes().map(|byte| format!("%{byte:02X}")).collect();
        pages.push(format!("/ui/memory?id={hex}"));
    }
    let mut shown = 0;
    for page in pages {
        browser.go(&page);
        let found = browser.run(
            "return [document.documentElement.dataset.ran ?? null, window.ran ?? null, \
             document.querySelectorAll('main img, main iframe, main object, main embed, main script, main math, \
             main style, main video, main audio, main base, main link, main meta, main template').length, \
             document.querySelectorAll('main [onerror], main [onload], main [onclick], main [onfocus], main [onmouseover], \
             main [style], main [srcdoc], main [href^=\"javascript:\" i]').length, \
             document.querySelectorAll('main blockquote').length]",
        );
        assert_eq!(found[0], Value::Null, "{page}");
        assert_eq!(found[1], Value::Null, "{page}");
        assert_eq!((&found[2], &found[3]), (&json!(0), &json!(0)), "{page}");
        shown += found[4].as_u64().unwrap();
    }
    assert!(shown as usize > PAYLOADS.len() * 2, "only {shown} texts were shown");
}

/// Pairs of equal texts, each of which would leave a mark where it ran; ids and sources try it as well.
fn hostile() -> Vec<PlainMemory> {
    let mut rows = Vec::new();
    for (at, payload) in PAYLOADS.iter().enumerate() {
        for side in 0..2 {
            let text = format!("Note {at} of the reviewer says {payload}");
            let mut row = memory(2 * at + side + 1, &text, &unit_vector(128, at));
            row.source = (*payload).to_owned();
            row.categories = vec![(*payload).to_owned()];
            if at % 8 == 7 {
                row.id = format!("{}{payload}", row.id);
            }
            rows.push(row);
        }
    }
    rows
}

/// Ways into a page, by context: elements, attributes, addresses, comments, encodings, parsers' corners.
const PAYLOADS: [&str; 66] = [
    "<script>window.ran=1</script>",
    "<SCRIPT>window.ran=1</SCRIPT >",
    "<scr<script>ipt>window.ran=1</scr</script>ipt>",
    "<script src=data:,window.ran=1></script>",
    "<script src=//127.0.0.1:9/x.js></script>",
    "<script>/*<img src=x onerror=window.ran=1>*/</script>",
    "</title><script>window.ran=1</script>",
    "</textarea><script>window.ran=1</script>",
    "</style><script>window.ran=1</script>",
    "</blockquote></main><script>window.ran=1</script>",
    "</script><script>window.ran=1</script>",
    "--><script>window.ran=1</script>",
    "]]><script>window.ran=1</script>",
    "<![CDATA[<script>window.ran=1</script>]]>",
    "<!--<img src='--><img src=x onerror=window.ran=1>",
    "<img src=x onerror=window.ran=1>",
    "<img src=x onerror=\"window.ran=1\">",
    "<img src=`x` onerror=window.ran=1>",
    "<img/src='x'/onerror=window.ran=1>",
    "<img src=x:x onerror\n=window.ran=1>",
    "<img \"\"\"><script>window.ran=1</script>\">",
    "<image src=x onerror=window.ran=1>",
    "<svg onload=window.ran=1>",
    "<svg/onload=window.ran=1//",
    "<svg><script>window.ran=1</script></svg>",
    "<svg><animate onbegin=window.ran=1 attributeName=x dur=1s>",
    "<svg><a xlink:href=javascript:window.ran=1><text x=20 y=20>x</text></a>",
    "<svg><use href=\"data:image/svg+xml,<svg id=x onload=window.ran=1/>#x\">",
    "<svg><foreignObject><iframe onload=window.ran=1></foreignObject></svg>",
    "<math><mi//xlink:href=javascript:window.ran=1>x",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.ran=1>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<iframe src=javascript:parent.ran=1></iframe>",
    "<iframe onload=window.ran=1></iframe>",
    "<object data=javascript:window.ran=1></object>",
    "<embed src=javascript:window.ran=1>",
    "<body onload=window.ran=1>",
    "<body onpageshow=window.ran=1>",
    "<input autofocus onfocus=window.ran=1>",
    "<select autofocus onfocus=window.ran=1>",
    "<textarea autofocus onfocus=window.ran=1>",
    "<details open ontoggle=window.ran=1>",
    "<video src=x onerror=window.ran=1></video>",
    "<video><source onerror=window.ran=1></video>",
    "<audio src=x onerror=window.ran=1></audio>",
    "<marquee onstart=window.ran=1>",
    "<link rel=stylesheet href=data:,*{x:expression(window.ran=1)}>",
    "<style>@import 'javascript:window.ran=1';</style>",
    "<div style=\"background:url(javascript:window.ran=1)\">",
    "<p style=animation-name:x onanimationstart=window.ran=1>",
    "<meta http-equiv=refresh content=\"0;url=javascript:window.ran=1\">",
    "<base href=javascript:window.ran=1//>",
    "<form action=javascript:window.ran=1><button autofocus>x</button></form>",
    "<a href=javascript:window.ran=1 id=x>x</a><script>x.click()</script>",
    "<template><script>window.ran=1</script></template>",
    "\" onmouseover=window.ran=1 x=\"",
    "' onfocus=window.ran=1 autofocus x='",
    "\"><img src=x onerror=window.ran=1>",
    "'><svg onload=window.ran=1>",
    "javascript:document.documentElement.dataset.ran=1",
    "&lt;script&gt;window.ran=1&lt;/script&gt;",
    "&#60;img src=x onerror=window.ran=1&#62;",
    "%3Cscript%3Ewindow.ran=1%3C/script%3E",
    "+ADw-script+AD4-window.ran=1+ADw-/script+AD4-",
    "\u{ff1c}script\u{ff1e}window.ran=1\u{ff1c}/script\u{ff1e}",
    "{{constructor.constructor('window.ran=1')()}} ${window.ran=1} <%= window.ran=1 %>",
];
