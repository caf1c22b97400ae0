//! Reads Markdown as far as these pages use it: headings, tables, fenced blocks, links.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A page of the documentation.
pub(super) struct Page {
    path: String,
    text: String,
}

impl Page {
    /// The page at this path below the root of the repository.
    pub(super) fn of(path: &str) -> Self {
        let text =
            std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path} can't be read: {error}"));
        Self { path: path.to_owned(), text }
    }

    /// Cells of all table rows under a heading, without header and rule.
    pub(super) fn rows(&self, heading: &str) -> Vec<Vec<String>> {
        let lines = self.section(heading).lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
        let rows: Vec<Vec<String>> =
            lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect();
        assert!(!rows.is_empty(), "{} has no table under \"{heading}\"", self.path);
        rows
    }

    /// Words in backticks in the first cells of the tables under a heading.
    pub(super) fn words(&self, heading: &str) -> BTreeSet<String> {
        self.rows(heading).iter().flat_map(|row| between(&row[0], '`')).collect()
    }

    /// Sentences in quotes in the first cells of the tables under a heading.
    pub(super) fn sentences(&self, heading: &str) -> BTreeSet<String> {
        self.rows(heading).iter().flat_map(|row| between(&row[0], '"')).collect()
    }

    /// Fenced blocks of a language.
    pub(super) fn blocks(&self, language: &str) -> Vec<String> {
        let fence = format!("```{language}\n");
        self.text.split(&fence).skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
    }

    /// The states of the state diagram.
    pub(super) fn drawn_states(&self) -> BTreeSet<String> {
        let diagram = self.blocks("mermaid").into_iter().find(|block| block.starts_with("stateDiagram"));
        let diagram = diagram.unwrap_or_else(|| panic!("{} draws no states", self.path));
        let arrows = diagram.lines().filter_map(|line| line.split(':').next()?.split_once("-->"));
        let ends = arrows.flat_map(|(from, to)| [from.trim().to_owned(), to.trim().to_owned()]);
        ends.filter(|end| end != "[*]").collect()
    }

    /// Links to headings that do not exist, here or on another page.
    pub(super) fn dead_anchors(&self) -> Vec<String> {
        let folder = Path::new(&self.path).parent().unwrap_or(Path::new(""));
        let targets = self.text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        targets
            .filter_map(|target| target.split_once('#').filter(|(file, _)| !file.contains(':')))
            .filter(|(file, anchor)| {
                let path =
                    if file.is_empty() { self.path.clone() } else { folder.join(file).to_string_lossy().into_owned() };
                !Self::of(&path).anchors().contains(*anchor)
            })
            .map(|(file, anchor)| format!("{}: {file}#{anchor}", self.path))
            .collect()
    }

    fn section(&self, heading: &str) -> &str {
        let start = self.text.find(&format!("\n## {heading}\n"));
        let start = start.unwrap_or_else(|| panic!("{} has no heading \"## {heading}\"", self.path));
        let rest = &self.text[start + 1..];
        rest.find("\n## ").map_or(rest, |end| &rest[..end])
    }

    fn anchors(&self) -> BTreeSet<String> {
        self.text.lines().filter(|line| line.starts_with('#')).map(|line| slug(line.trim_start_matches('#'))).collect()
    }
}

/// Every page of `docs/`, and the README where there is one.
pub(super) fn all() -> Vec<Page> {
    let entries =
        std::fs::read_dir(root().join("docs")).unwrap_or_else(|error| panic!("docs can't be listed: {error}"));
    let names = entries.flatten().map(|entry| format!("docs/{}", entry.file_name().to_string_lossy()));
    let paths = names.chain(["README.md".to_owned()]).filter(|path| is_page(&root().join(path)));
    paths.map(|path| Page::of(&path)).collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md") && path.is_file()
}

/// Where the first link of a cell leads.
pub(super) fn link_target(cell: &str) -> &str {
    cell.split_once("](").and_then(|(_, rest)| rest.split_once(')')).map_or("", |(target, _)| target)
}

/// The folder that holds the root manifest.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Texts between two of these marks.
pub(super) fn between(text: &str, mark: char) -> Vec<String> {
    let parts: Vec<&str> = text.split(mark).collect();
    // The last part has no mark behind it.
    parts[..parts.len() - 1].iter().skip(1).step_by(2).map(|part| (*part).to_owned()).collect()
}

/// A heading as links name it: lower case, words joined by hyphens, other signs left out.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn a_page_is_read_by_headings_tables_and_blocks() {
    let text = "# P\n\n## One thing\n\n| a | b |\n|---|---|\n| `x`, `y` | 1 |\n\n## Other\n\n```sql\nselect 1;\n```\n[z](#one-thing) [w](#none)\n";
    let page = Page { path: "docs/p.md".into(), text: text.into() };
    assert_eq!(page.words("One thing"), BTreeSet::from(["x".to_owned(), "y".to_owned()]));
    assert_eq!(page.blocks("sql"), ["select 1;\n"]);
    assert_eq!(slug(" 3. The walk, of one event"), "3-the-walk-of-one-event");
    assert!(page.anchors().contains("one-thing") && !page.anchors().contains("none"));
}
