//! `cargo xtask pictures`: draws the README's pictures of the terminal from real runs.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// The limit of plans/first.toml that is tightened until no disk meets it, and by what.
const LIMIT: (&str, &str) = ("read.latency.p99 < 1s", "read.latency.p99 < 1us");

/// Columns of the drawn terminal.
const COLUMNS: &str = "92";

/// Runs the first plan, and once more with a limit that no disk meets, and draws what the person
/// would see into docs/.
pub(crate) fn run() -> Result<ExitCode> {
    let program = cargo::build_release("diskproof")?;
    let root = cargo::root();
    let plan = root.join("plans/first.toml");
    let text = std::fs::read_to_string(&plan).context("can't read plans/first.toml")?;
    ensure!(text.contains(LIMIT.0), "plans/first.toml has no condition `{}` any more", LIMIT.0);
    let scratch = std::env::temp_dir().join(format!("diskproof-pictures-{}", std::process::id()));
    std::fs::create_dir(&scratch).context("can't make a scratch folder")?;
    let drawn = draw_both(&program, root, &scratch, &text);
    std::fs::remove_dir_all(&scratch).context("can't remove the scratch folder")?;
    drawn.map(|()| ExitCode::SUCCESS)
}

fn draw_both(program: &Path, root: &Path, scratch: &Path, text: &str) -> Result<()> {
    std::fs::create_dir(scratch.join("plans"))?;
    std::fs::write(scratch.join("plans/first.toml"), text)?;
    std::fs::write(scratch.join("strict.toml"), text.replace(LIMIT.0, LIMIT.1))?;
    for (plan, code, picture) in
        [("plans/first.toml", 0, "docs/pass.svg"), ("strict.toml", 1, "docs/fail.svg")]
    {
        let output = Command::new(program)
            .args(["run", plan, "--color", "always", "--progress", "none"])
            .env("COLUMNS", COLUMNS)
            .current_dir(scratch)
            .output()
            .with_context(|| format!("can't run {}", program.display()))?;
        ensure!(
            output.status.code() == Some(code),
            "{plan} ended with {} in place of exit code {code}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let seen = format!(
            "$ cargo xtask run-plan {plan}\n{}$ echo $?\n{code}\n",
            String::from_utf8(output.stdout)?
        );
        // Dimmed text is too faint at the library's 0.4 to be read on a page.
        let drawn =
            anstyle_svg::Term::new().render_svg(&seen).replace("opacity: 0.4", "opacity: 0.7");
        std::fs::write(root.join(picture), drawn)?;
        println!("drew {picture}");
    }
    Ok(())
}
