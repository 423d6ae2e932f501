//! `diskproof show`: what would happen here, how long it takes, and what would be lost.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::cli::run::{RunArgs, complain, request};
use crate::cli::{load, out};
use crate::plan::Plan;
use crate::record::ExitCode;
use crate::report::shell_word;
use crate::rig::{RigError, Survey, SurveyedDisk};
use crate::session::{self, CasePreview, Memory, Preview};
use crate::units::{Bytes, Nanos, counted, escaped, human_bytes};

/// Arguments of `show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  diskproof show plans/first.toml
  diskproof show plans/stripe.toml --disk single=/mnt/a --profile smoke")]
pub(super) struct Args {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    #[command(flatten)]
    common: RunArgs,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let loaded = match load::load(&args.plan, args.common.profile.as_deref()) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let request = match request(loaded, &args.common, None) {
        Ok(request) => request,
        Err(code) => return code,
    };
    let preview = match session::preview(&request) {
        Ok(preview) => preview,
        Err(error) => return complain(&error),
    };
    if args.json {
        out::print(&format!("{:#}\n", as_json(&request.plan, &preview)));
    } else {
        out::print(&text(&request.plan, &preview));
    }
    let code = troubles(&preview.troubles);
    if code == ExitCode::Passed && !args.json {
        let options = args.common.words().into_iter();
        let words = options.chain([args.plan.to_string_lossy().into_owned()]);
        let words: Vec<_> = words.map(|word| shell_word(&word)).collect();
        out::say(&format!("next: diskproof run {}", words.join(" ")));
    }
    code
}

/// Says everything that stands in the way of a run, and what it comes to.
pub(super) fn troubles(troubles: &[RigError]) -> ExitCode {
    let mut worst = ExitCode::Passed;
    for trouble in troubles {
        let mut message = session::with_causes(trouble);
        if let Some(help) = trouble.help() {
            let _ = write!(message, "\n  help: {help}");
        }
        out::error(&message);
        let code = super::run::exit_of(trouble);
        if code.rank() > worst.rank() {
            worst = code;
        }
    }
    worst
}

/// The preview as a person reads it.
pub(super) fn text(plan: &Plan, preview: &Preview) -> String {
    let name = escaped(&plan.name);
    let title = match &plan.description {
        Some(words) => format!("{name}: {}", escaped(words)),
        None => name,
    };
    let mut text = format!("{title}\n{}\n\n", effort(plan, preview));
    match &preview.survey {
        Some(survey) => text += &storage(survey),
        None => text += "  disks     simulated, in virtual time: no figure is of a real device\n",
    }
    for (index, setup) in plan.setups.iter().enumerate() {
        if !preview.cases.iter().any(|outlined| plan.cases[outlined.case].setup == index) {
            continue;
        }
        let names: Vec<_> = setup.disks.iter().map(|disk| plan.disks[*disk].name.clone()).collect();
        let stripe = setup.stripe.map_or(String::new(), |stripe| {
            format!(", striped in chunks of {} by the engine", stripe.chunk)
        });
        let what = format!("{}{stripe}", shortened(&names));
        text += &row("setup", &format!("{}{}", setup.name, setup.point), &what);
    }
    for (name, probed) in [("io_uring", &preview.ring), ("libaio", &preview.libaio)] {
        let Some(probed) = probed else { continue };
        let state = match &probed.reason {
            Some(reason) => format!("no: {reason}"),
            None => "yes".to_owned(),
        };
        text += &row(name, &state, "");
    }
    if preview.without_baseline > 0 {
        let asked = counted(preview.without_baseline, "condition");
        text +=
            &row("baseline", &format!("{asked} can't be told without `run --baseline FILE`"), "");
    }
    let destroys = preview.survey.as_ref().map_or("nothing", Survey::destroys);
    text += &row("destroys", destroys, "");
    text.push('\n');
    for outlined in &preview.cases {
        text += &case(plan, outlined);
    }
    text
}

/// How long something takes, as a person says it: `about 6 s`, `about 2 h 10 min to 6 h 30 min`.
pub(super) fn about(least: Nanos, most: Nanos) -> String {
    match (duration(least), duration(most)) {
        (_, most) if most.is_empty() => "less than 1 s".to_owned(),
        (least, most) if least.is_empty() || least == most => format!("about {most}"),
        (least, most) => format!("about {least} to {most}"),
    }
}

/// `6 s`, `9 min`, `2 h 10 min`; nothing of less than half a second.
fn duration(time: Nanos) -> String {
    let seconds = time.as_secs().round() as i64;
    match seconds {
        ..=0 => String::new(),
        1..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

fn effort(plan: &Plan, preview: &Preview) -> String {
    let (least, most) = preview.expected;
    let rounds = plan.run.rounds;
    let count = if rounds.min == rounds.max {
        counted(rounds.min as usize, "round")
    } else {
        format!("{} to {} rounds", rounds.min, rounds.max)
    };
    let profile = plan.profile.as_ref().map_or(String::new(), |name| format!(", profile {name}"));
    let cases = counted(preview.cases.len(), "case");
    let created = preview.survey.as_ref().map_or(Bytes(0), Survey::created);
    let fill = match created {
        Bytes(0) => String::new(),
        bytes => format!(", after {bytes} were written to make the disks"),
    };
    format!("{cases}, {count}{profile}, {}{fill}", about(least, most))
}

fn storage(survey: &Survey) -> String {
    let mut text = String::new();
    // Members of a counted disk differ in nothing but their number: one line stands for all.
    let mut disks = survey.disks.iter().peekable();
    while let Some(first) = disks.next() {
        let mut last = first;
        let mut count = 1;
        while let Some(next) = disks.next_if(|next| same_but_for_the_number(first, next)) {
            (last, count) = (next, count + 1);
        }
        let name = match count {
            1 => first.name.clone(),
            _ => format!("{} to {}", first.name, last.name),
        };
        text += &row("disk", &name, &disk(first, count));
        for note in first.used_by.iter().chain(&first.note) {
            text += &row("", "", note);
        }
    }
    for space in &survey.space {
        let free = space.free.map_or("an unknown amount".to_owned(), human_bytes);
        let taken = format!("{} of {free} free", space.created);
        text += &row("space", &taken, &format!("in {}", space.path.display()));
    }
    text
}

fn disk(disk: &SurveyedDisk, count: usize) -> String {
    let place = disk.path.display();
    let filesystem = disk.filesystem.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    let each = if count == 1 { "" } else { " each" };
    let size = disk.size;
    let what = match (disk.kind.word(), disk.kind.is_created()) {
        ("loopback", _) => format!("loopback file, {size}{each}, in {place}{filesystem}: create"),
        (_, true) => format!("test file, {size}{each}, in {place}{filesystem}: create"),
        ("null", _) => format!("the null device, as if of {size}: takes what is written"),
        ("device", _) => {
            let id = disk.stable_id.as_ref().map_or(String::new(), |id| format!(", {id}"));
            format!("device {place}, {}{id}: read only", human_bytes(size))
        }
        (kind, _) => format!("{kind} {place}, {}{filesystem}: read only", human_bytes(size)),
    };
    match disk.align {
        Some(align) => format!("{what}, direct I/O in {}", Bytes(align.offset_bytes.into())),
        None => format!("{what}, no direct I/O"),
    }
}

fn same_but_for_the_number(a: &SurveyedDisk, b: &SurveyedDisk) -> bool {
    let group = |disk: &SurveyedDisk| disk.name.rsplit_once('.').map(|(group, _)| group.to_owned());
    group(a).is_some()
        && group(a) == group(b)
        && (a.kind, &a.path, a.size, a.align) == (b.kind, &b.path, b.size, b.align)
}

fn case(plan: &Plan, outlined: &CasePreview) -> String {
    let workload = &plan.cases[outlined.case].workload;
    let mut text = format!("  {}\n      {}\n", outlined.id, session::heading(workload));
    for (name, what) in session::streams_in_words(workload) {
        let _ = writeln!(text, "      stream {name}: {what}");
    }
    for condition in &outlined.conditions {
        let _ = writeln!(text, "      expect {}", escaped(condition));
    }
    if let Some(memory) = &outlined.memory {
        let _ = writeln!(text, "      memory at most {}", in_parts(memory));
    }
    for reason in &outlined.skipped {
        let _ = writeln!(text, "      skipped: {}", escaped(reason));
    }
    text
}

/// `13.1 MiB: 4 MiB for I/Os, 9.1 MiB for the rest`.
fn in_parts(memory: &Memory) -> String {
    let Memory { buffers, table, beside } = *memory;
    let table = match table {
        Bytes(0) => String::new(),
        bytes => format!(", {} to verify by", human_bytes(bytes)),
    };
    let [all, buffers, beside] = [memory.sum(), buffers, beside].map(human_bytes);
    format!("{all}: {buffers} for I/Os{table}, {beside} for the rest")
}

fn row(head: &str, name: &str, what: &str) -> String {
    format!("  {head:<9} {name:<16} {}", escaped(what)).trim_end().to_owned() + "\n"
}

fn shortened(names: &[String]) -> String {
    match names {
        [first, .., last] if names.len() > 3 => format!("{first} to {last} ({})", names.len()),
        few => few.join(", "),
    }
}

fn as_json(plan: &Plan, preview: &Preview) -> serde_json::Value {
    let disks = preview.survey.iter().flat_map(|survey| &survey.disks).map(|disk| {
        serde_json::json!({
            "name": disk.name,
            "kind": disk.kind.word(),
            "path": disk.path.display().to_string(),
            "size_bytes": disk.size.0,
            "created_bytes": disk.created.0,
            "filesystem": disk.filesystem,
            "stable_id": disk.stable_id,
            "used_by": disk.used_by,
            "direct_io_align_bytes": disk.align.map(|align| align.offset_bytes),
        })
    });
    let cases = preview.cases.iter().map(|outlined| {
        let streams = session::streams_in_words(&plan.cases[outlined.case].workload).into_iter();
        let stream = |(name, what)| serde_json::json!({ "name": name, "what": what });
        serde_json::json!({
            "streams": streams.map(stream).collect::<Vec<_>>(),
            "id": outlined.id,
            "what": outlined.what,
            "conditions": outlined.conditions,
            "memory_bytes_max": outlined.memory.map(|memory| serde_json::json!({
                "buffers": memory.buffers.0,
                "table": memory.table.0,
                "beside": memory.beside.0,
            })),
            "skipped": outlined.skipped,
        })
    });
    let ring = preview.ring.as_ref();
    serde_json::json!({
        "name": plan.name,
        "profile": plan.profile,
        "expected_ns_min": preview.expected.0,
        "expected_ns_max": preview.expected.1,
        "rounds": { "min": plan.run.rounds.min, "max": plan.run.rounds.max },
        "disks": disks.collect::<Vec<_>>(),
        "cases": cases.collect::<Vec<_>>(),
        "io_uring": ring.map(|ring| ring.usable),
        "libaio": preview.libaio.as_ref().map(|libaio| libaio.usable),
        "destroys": [],
        "troubles": preview.troubles.iter().map(|trouble| serde_json::json!({
            "category": trouble.category().to_string(),
            "message": session::with_causes(trouble),
            "help": trouble.help(),
        })).collect::<Vec<_>>(),
    })
}
