//! The dashboard without a script: pages, and the forms on them.

use std::collections::BTreeMap;

use memfold_tests::{PlainMemory, memory, unit_vector};
use serde_json::json;

use crate::support::{Answer, Server, TestFolder, deploys};

const LIVE: &str = "SELECT count(*) FROM stm";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The pages that need no id.
const PAGES: [&str; 8] = [
    "/ui",
    "/ui/plans",
    "/ui/plan",
    "/ui/conflicts",
    "/ui/plan?kind=propose_merge",
    "/ui/memories",
    "/ui/schedule",
    "/ui/runs",
];

/// A person with a browser that runs no script.
struct Client<'s> {
    server: &'s Server,
    cookie: String,
}

/// A form as it stands on a page.
#[derive(Debug)]
struct Form {
    action: String,
    fields: BTreeMap<String, String>,
    /// The field that each button sends, by its words.
    buttons: BTreeMap<String, (String, String)>,
}

impl<'s> Client<'s> {
    const fn of(server: &'s Server) -> Self {
        Self { server, cookie: String::new() }
    }

    fn open(&self, path: &str) -> Answer {
        let path = path.split('#').next().unwrap();
        self.server.send("GET", path, &[("Cookie", &self.cookie)], "")
    }

    #[track_caller]
    fn page(&self, path: &str) -> String {
        let answer = self.open(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(answer.headers["content-security-policy"].starts_with("default-src 'none'"));
        assert!(answer.headers["content-type"].starts_with("text/html"));
        answer.body
    }

    fn send(&self, action: &str, fields: &BTreeMap<String, String>) -> Answer {
        let origin = format!("http://{}", self.server.address);
        let headers = [
            ("Cookie", &*self.cookie),
            ("Origin", &origin),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        self.server.send("POST", action, &headers, &encoded(fields))
    }

    /// Presses a button of a page and follows where it leads.
    #[track_caller]
    fn press(&self, page: &str, button: &str) -> (String, String) {
        let form = form_with(page, button);
        let mut fields = form.fields;
        let (name, value) = form.buttons[button].clone();
        if !name.is_empty() {
            fields.insert(name, value);
        }
        let answer = self.send(&form.action, &fields);
        assert_eq!(answer.status, 303, "{button}: {answer:?}");
        let path = answer.headers["location"].clone();
        let page = self.page(&path);
        (path, page)
    }

    /// Presses a button that starts a job, and loads its page until it is over.
    #[track_caller]
    fn work(&self, page: &str, button: &str) -> String {
        let (path, mut page) = self.press(page, button);
        assert!(path.starts_with("/ui/job?"), "{path}");
        while page.contains("http-equiv=\"refresh\"") {
            std::thread::sleep(std::time::Duration::from_millis(20));
            page = self.page(&path);
        }
        assert!(page.contains("<small>done</small>"), "{page}");
        page
    }
}

fn encoded(fields: &BTreeMap<String, String>) -> String {
    let part = |text: &str| -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let byte = |byte: u8| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        text.bytes().map(byte).collect()
    };
    let pairs: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}={}", part(name), part(value))).collect();
    pairs.join("&")
}

/// The value of an attribute of the tag that a text begins with.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let tag = &tag[..tag.find('>')?];
    let value = tag.split_once(&format!(" {name}=\""))?.1;
    Some(unescaped(&value[..value.find('"')?]))
}

fn unescaped(text: &str) -> String {
    let mut text = text.to_owned();
    for (escape, plain) in
        [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")]
    {
        text = text.replace(escape, plain);
    }
    text
}

fn forms(page: &str) -> Vec<Form> {
    let form = |form: &str| {
        let inner = &form[..form.find("</form>").unwrap()];
        let inputs = inner.split("<input").skip(1).filter_map(|input| {
            let is_off = input.starts_with(" type=\"checkbox\"") && !input.contains(" checked>");
            let value = attribute(input, "value")?;
            (!is_off).then(|| Some((attribute(input, "name")?, value)))?
        });
        let selects = inner.split("<select").skip(1).filter_map(|select| {
            let list = &select[..select.find("</select>")?];
            let mut options = list.split("<option").skip(1);
            let first = options.clone().next();
            let chosen =
                options.find(|option| option[..option.find('>').unwrap()].contains(" selected"));
            let chosen = chosen.or(first)?;
            Some((attribute(select, "name")?, attribute(chosen, "value")?))
        });
        let fields = inputs.chain(selects).collect();
        let buttons = inner.split("<button").skip(1).map(|button| {
            let words = &button[button.find('>').unwrap() + 1..button.find("</button>").unwrap()];
            let sent = |name| attribute(button, name).unwrap_or_default();
            (words.to_owned(), (sent("name"), sent("value")))
        });
        Form { action: attribute(form, "action").unwrap(), fields, buttons: buttons.collect() }
    };
    page.split("<form").skip(1).map(form).collect()
}

#[track_caller]
fn form_with(page: &str, button: &str) -> Form {
    let form = forms(page).into_iter().find(|form| form.buttons.contains_key(button));
    form.unwrap_or_else(|| panic!("no button {button} on {page}"))
}

/// The link of a page with a target that begins like this.
#[track_caller]
fn link(page: &str, start: &str) -> String {
    let mut links = page.split("<a").skip(1).filter_map(|tag| attribute(tag, "href"));
    links.find(|link| link.starts_with(start)).unwrap_or_else(|| panic!("no {start} on {page}"))
}

#[test]
fn a_person_approves_applies_and_undoes_without_a_script() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let client = Client::of(&server);
    let first = server.get("/");
    assert_eq!((first.status, &*first.headers["location"]), (303, "/ui"));
    let overview = client.page("/ui");
    assert!(overview.contains(">4</a></strong>"), "{overview}");
    let job = client.work(&overview, "Make a plan now");
    assert!(job.contains("<dt>Actions</dt><dd>merge 1</dd>"), "{job}");

    let here = link(&job, "/ui/plan?id=");
    let plan = client.page(&here);
    assert!(plan.contains("similarity 1.000") && plan.contains("of which 0 approved"), "{plan}");
    let (_, rejected) = client.press(&plan, "Reject");
    let (_, open) = client.press(&rejected, "Undecide");
    let (back, approved) = client.press(&open, "Approve 1 merges of identical texts");
    assert!(back.starts_with(&here), "{back}");
    let job = client.work(&approved, "Apply 1 approved");
    assert_eq!(dir.one::<i64>(LIVE), 3);

    let run = client.page(&link(&job, "/ui/run?id="));
    assert!(run.contains("1 applied") && run.contains("0 of 1 undone"), "{run}");
    let survivor = client.page(&link(&run, "/ui/memory?id="));
    assert!(survivor.contains("What was merged into it"), "{survivor}");
    let job = client.work(&run, "Undo this run");
    assert!(job.contains("<dt>Units</dt><dd>undone 1</dd>"), "{job}");
    assert_eq!(dir.one::<i64>(LIVE), 4);
    let runs = client.page("/ui/runs");
    assert!(runs.contains("The audit chain holds") && runs.contains("1 of 1"), "{runs}");
    // Undone merges are not repeated, and the plan says so.
    let plan = client.page(&here);
    assert!(plan.contains("class=\"undone\"") && !plan.contains("class=\"note\""), "{plan}");
}

#[test]
fn pages_of_other_sites_and_old_pages_change_nothing() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let client = Client::of(&server);
    let (plan, digest) = server.plan(&json!({ "save_plan": true }));
    let page = client.page(&format!("/ui/plan?id={plan}"));
    let mut form = form_with(&page, "Approve");
    form.fields.insert("decision".to_owned(), "approve".to_owned());
    for forged in ["", "0123456789abcdef0123456789abcdef", " "] {
        form.fields.insert("form".to_owned(), forged.to_owned());
        let answer = client.send(&form.action, &form.fields);
        assert_eq!(answer.status, 421, "{answer:?}");
        assert!(answer.body.contains("open the page again"), "{answer:?}");
    }
    form.fields.remove("form");
    assert_eq!(client.send(&form.action, &form.fields).status, 421);
    // The token of the form is right, but the page is another site's.
    let form = form_with(&page, "Approve");
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let body = encoded(&form.fields) + "&decision=approve";
    for origin in ["http://evil.example", "null"] {
        let headers = [kind, ("Origin", origin)];
        assert_eq!(server.send("POST", &form.action, &headers, &body).status, 421);
    }
    let state = server.get(&format!("/v1/plans/{plan}")).json()["actions"][0]["state"].clone();
    assert_eq!(state, "proposed");

    let (_, approved) = client.press(&page, "Approve");
    let mut apply = form_with(&approved, "Apply 1 approved");
    assert_eq!(apply.fields["digest"], digest);
    apply.fields.insert("digest".to_owned(), digest.replace(|c: char| c.is_ascii_digit(), "a"));
    assert_eq!(client.send(&apply.action, &apply.fields).status, 412);
    assert_eq!(dir.one::<i64>(LIVE), 4);
    // Fields that a page of ours does not send.
    for (path, further) in [
        ("/ui/plan/decide", "id=x&action=a1&decision=explode"),
        ("/ui/runs", "what=everything"),
        ("/ui/runs", ""),
        ("/ui/schedule", "preset=&cron=nonsense&execute=none"),
    ] {
        let form = &form.fields["form"];
        let body = format!("form={form}&store=brain&{further}");
        let answer = server.send("POST", path, &[kind], &body);
        assert!((400..=422).contains(&answer.status), "{path} {further}: {answer:?}");
    }
}

#[test]
fn a_token_is_asked_for_once_and_kept_in_a_cookie() {
    let dir = TestFolder::with_deploys();
    dir.write("token", TOKEN);
    let server = dir.serve(&["--token-file", "token"]);
    let client = Client::of(&server);
    for page in PAGES {
        let answer = client.open(page);
        assert_eq!((answer.status, &*answer.headers["location"]), (303, "/ui/sign-in"), "{page}");
        assert!(!answer.body.contains("deploy"));
    }
    let form = form_with(&client.page("/ui/sign-in"), "Sign in");
    let sign_in = |token: &str| {
        let mut fields = form.fields.clone();
        fields.insert("token".to_owned(), token.to_owned());
        client.send(&form.action, &fields)
    };
    let wrong = sign_in("0123456789abcdef0123456789abcdee");
    assert_eq!(wrong.status, 401);
    assert!(wrong.body.contains("role=\"alert\"") && !wrong.headers.contains_key("set-cookie"));
    let right = sign_in(TOKEN);
    assert_eq!((right.status, &*right.headers["location"]), (303, "/ui"));
    let cookie = right.headers["set-cookie"].clone();
    for needed in ["HttpOnly", "SameSite=Strict", "Path=/ui"] {
        assert!(cookie.contains(needed), "{cookie}");
    }
    assert!(!cookie.contains(TOKEN));
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let client = Client { cookie, ..client };
    for page in PAGES {
        client.page(page);
    }
    // The cookie opens the dashboard; programs give their token.
    let headers = [("Cookie", &*client.cookie)];
    server.send("GET", "/v1/stats", &headers, "").assert_problem(401, "unauthorized");
    let stolen = format!("{}0", client.cookie);
    let answer = server.send("GET", "/ui", &[("Cookie", &stolen)], "");
    assert_eq!((answer.status, &*answer.headers["location"]), (303, "/ui/sign-in"));
    for _ in 0..10 {
        sign_in("0123456789abcdef0123456789abcdee");
    }
    assert_eq!(sign_in("0123456789abcdef0123456789abcdee").status, 429);
}

#[test]
fn a_server_that_only_reads_shows_everything_and_offers_nothing() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve(&[]);
    let client = Client::of(&server);
    let job = client.work(&client.page("/ui"), "Make a plan now");
    let plan = client.page(&link(&job, "/ui/plan?id="));
    assert!(plan.contains("Reading only") && plan.contains("<article"), "{plan}");
    for form in forms(&plan) {
        assert_eq!(form.action, "/ui/plan", "{form:?}");
    }
    let form = form_with(&client.page("/ui/runs"), "Start").fields["form"].clone();
    let plan = link(&job, "/ui/plan?id=").split_once('=').unwrap().1.to_owned();
    for (path, further) in [
        ("/ui/plan/decide", [("id", &*plan), ("action", "a1"), ("decision", "approve")]),
        ("/ui/conflicts", [("key", "x"), ("settlement", "merge"), ("id", "")]),
        ("/ui/run/undo", [("id", "x"), ("key", ""), ("action", "")]),
        ("/ui/runs", [("what", "all"), ("key", ""), ("action", "")]),
        ("/ui/schedule", [("preset", "0 2 * * *"), ("execute", "all"), ("enabled", "on")]),
    ] {
        let mut fields =
            BTreeMap::from([("form".into(), form.clone()), ("store".into(), "brain".into())]);
        fields.extend(further.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(client.send(path, &fields).status, 403, "{path}");
    }
    assert_eq!(dir.one::<i64>(LIVE), 4);
}

#[test]
fn memories_are_listed_by_page_and_filtered() {
    let mut rows: Vec<PlainMemory> = (0..120)
        .map(|number| PlainMemory {
            categories: vec![if number < 100 { "shelf" } else { "kiln" }.to_owned()],
            ..memory(number, format!("Jar number{number} is blue"), &unit_vector(130, number))
        })
        .collect();
    for number in [121, 122] {
        rows.push(memory(number, "The deploy runs <b>every</b> Friday", &unit_vector(130, 125)));
    }
    let dir = TestFolder::with(&rows);
    let server = dir.serve_writing();
    let client = Client::of(&server);
    let mut path = link(&client.page("/ui"), "/ui/memories");
    let mut seen = std::collections::BTreeSet::new();
    let mut pages = 0;
    loop {
        let page = client.page(&path);
        assert!(page.contains("122 found") && !page.contains("<b>every"), "{page}");
        let links = page.split("<a").filter_map(|tag| attribute(tag, "href"));
        seen.extend(links.filter(|link| link.starts_with("/ui/memory?id=")));
        pages += 1;
        let Some(next) = page.split("rel=\"next\" href=\"").nth(1) else { break };
        path = unescaped(&next[..next.find('"').unwrap()]);
    }
    assert_eq!((seen.len(), pages), (122, 3));
    for (filter, count) in [
        ("q=FRIDAY+deploy", 2),
        ("q=m000005", 1),
        ("q=nothing+like+this", 0),
        ("category=kiln", 20),
        ("category=kiln&q=number11", 10),
        ("state=merged", 0),
        ("tier=none", 0),
    ] {
        let page = client.page(&format!("/ui/memories?{filter}"));
        assert!(page.contains(&format!("{count} found")), "{filter}: {page}");
    }
    let tiers = ["hot", "warm", "cold", "archived"].map(|tier| {
        let page = client.page(&format!("/ui/memories?tier={tier}"));
        let (before, _) = page.split_once(" found").unwrap();
        before.rsplit('>').next().unwrap().parse::<u64>().unwrap()
    });
    assert_eq!(tiers.iter().sum::<u64>(), 122, "{tiers:?}");
    let (plan, digest) = server.plan(&json!({ "save_plan": true }));
    server.apply(&plan, &digest);
    let merged = client.page("/ui/memories?state=merged");
    assert!(merged.contains("1 found") && merged.contains("Merged into"), "{merged}");
    link(&merged, "/ui/memory?id=m000122");
}

/// A plan knows of a contradiction before a run flags it, and the words that differ are marked.
#[test]
fn conflicts_are_counted_early_and_marked_and_an_undo_can_be_allowed_again() {
    let mut rows = deploys();
    rows[2] = memory(3, "The backup runs every Friday at noon", &unit_vector(4, 1));
    rows[3] = memory(4, "The backup runs every Monday at noon", &unit_vector(4, 1));
    let dir = TestFolder::with(&rows);
    let server = dir.serve_writing();
    let client = Client::of(&server);
    let job = client.work(&client.page("/ui"), "Make a plan now");
    assert!(client.page("/ui").contains("1 more in the latest plan"));
    let early = client.page("/ui/conflicts");
    assert!(early.contains("The latest plan found 1 more"), "{early}");
    let plan = link(&job, "/ui/plan?id=");
    let id = plan.split_once("id=").unwrap().1;
    let digest = server.get(&format!("/v1/plans/{id}")).json()["plan_digest"].clone();
    let run = server.apply(id, digest.as_str().unwrap());
    let flagged = client.page("/ui/conflicts");
    assert!(
        flagged.contains("<ins>Friday</ins>") && flagged.contains("<ins>Monday</ins>"),
        "{flagged}"
    );
    assert!(!flagged.contains("The latest plan found"), "{flagged}");
    let job = client.work(&client.page(&format!("/ui/run?id={run}")), "Undo this run");
    let again = client.work(&job, "Allow again: make a plan with what was undone");
    assert!(again.contains("merge 1"), "{again}");
    let plan = client.page(&plan);
    assert!(plan.contains("Allow again what was undone"), "{plan}");
}

#[test]
fn a_schedule_is_set_by_a_form() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let client = Client::of(&server);
    let page = client.page("/ui/schedule");
    assert!(page.contains("None: the schedule is off."), "{page}");
    let mut form = form_with(&page, "Save");
    form.fields.extend([
        ("enabled".to_owned(), "on".to_owned()),
        ("preset".to_owned(), String::new()),
        ("cron".to_owned(), "30 4 * * 1-5".to_owned()),
        ("zone".to_owned(), "Europe/Berlin".to_owned()),
        ("execute".to_owned(), "identical".to_owned()),
    ]);
    assert_eq!(client.send(&form.action, &form.fields).status, 303);
    let page = client.page("/ui/schedule");
    assert_eq!(page.matches("04:30 Europe/Berlin").count(), 5, "{page}");
    let set = server.get("/api/v1/brain/consolidation/schedule").json();
    assert_eq!((&set["schedule"], &set["execute"]), (&json!("30 4 * * 1-5"), &json!("identical")));
    form.fields.insert("zone".to_owned(), "Mars/Olympus".to_owned());
    let refused = client.send(&form.action, &form.fields);
    assert!(refused.status == 422 && refused.body.contains("Mars/Olympus"), "{refused:?}");
}
