//! Enough of Rust's grammar to tell code from comments and strings, and functions from each other.

use std::ops::Range;

/// A piece of a source file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// A string literal, without its quotes.
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) text: String,
}

/// A function with a body.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    /// From the line of `fn` to the line of the closing brace.
    pub(super) lines: usize,
}

/// The source with everything but code replaced by spaces; lines and columns stay.
pub(super) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    for (kind, range) in pieces(source) {
        let piece = &source[range];
        if kind == Kind::Code {
            code.push_str(piece);
        } else {
            code.extend(piece.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        }
    }
    code
}

/// All string literals of the source.
pub(super) fn literals(source: &str) -> Vec<Literal> {
    pieces(source)
        .into_iter()
        .filter(|(kind, _)| *kind == Kind::Text)
        .map(|(_, range)| Literal {
            line: line_of(source, range.start),
            text: source[range].trim_matches(['r', 'b', 'c', '#', '"']).to_owned(),
        })
        .collect()
}

/// All functions with a body, of code that [`code_only`] made.
pub(super) fn functions(code: &str) -> Vec<Function> {
    words(code, "fn").filter_map(|start| function_at(code, start)).collect()
}

/// Places where a word stands, not as part of a longer one.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(start, _)| start).filter(move |start| {
        let before = code[..*start].chars().next_back();
        let after = code[start + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// Lines that unit tests take: every `#[cfg(test)] mod … { … }`, of code that [`code_only`] made.
pub(super) fn test_lines(code: &str) -> Vec<Range<usize>> {
    code.match_indices("#[cfg(test)]")
        .filter_map(|(start, attribute)| {
            let rest = &code[start + attribute.len()..];
            let open = rest
                .find(['{', ';'])
                .filter(|at| rest[*at..].starts_with('{') && words(&rest[..*at], "mod").next().is_some())?;
            let open = start + attribute.len() + open;
            Some(line_of(code, start)..line_of(code, closing_brace(code, open)) + 1)
        })
        .collect()
}

/// The line of a place, counted from one.
pub(super) fn line_of(text: &str, place: usize) -> usize {
    text[..place].bytes().filter(|byte| *byte == b'\n').count() + 1
}

pub(super) fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn function_at(code: &str, start: usize) -> Option<Function> {
    let rest = &code[start + 2..];
    let name: String = rest.trim_start().chars().take_while(|character| is_name(*character)).collect();
    // Without a name it is a type such as `fn(&File)`.
    let open = start + 2 + body_start(rest).filter(|_| !name.is_empty())?;
    let line = line_of(code, start);
    Some(Function { name, line, lines: line_of(code, closing_brace(code, open)) - line + 1 })
}

/// The brace that opens the body; none for a declaration, which ends in a semicolon outside of brackets.
fn body_start(signature: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, character) in signature.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

fn closing_brace(code: &str, open: usize) -> usize {
    let mut depth = 0_i32;
    for (at, character) in code[open..].char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return open + at;
        }
    }
    code.len()
}

fn pieces(source: &str) -> Vec<(Kind, Range<usize>)> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < source.len() {
        if let Some((kind, length)) = piece_at(source, at) {
            pieces.push((Kind::Code, start..at));
            pieces.push((kind, at..at + length));
            at += length;
            start = at;
        } else {
            at += source[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    pieces.push((Kind::Code, start..source.len()));
    pieces
}

/// The comment, string or character that begins here, with its length.
fn piece_at(source: &str, at: usize) -> Option<(Kind, usize)> {
    let rest = &source[at..];
    match rest.as_bytes()[0] {
        b'/' if rest.starts_with("//") => Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len()))),
        b'/' if rest.starts_with("/*") => Some((Kind::Comment, block_comment(rest))),
        b'"' => Some((Kind::Text, quoted(rest, '"'))),
        b'\'' => character_literal(rest).map(|length| (Kind::Text, length)),
        b'r' if !source[..at].ends_with(|before: char| is_name(before) && !matches!(before, 'b' | 'c')) => {
            raw_string(rest).map(|length| (Kind::Text, length))
        }
        _ => None,
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of a literal up to its closing quote, over escaped ones.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// None for a lifetime.
fn character_literal(rest: &str) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1);
    let (_, first) = characters.next()?;
    let (_, second) = characters.next()?;
    (first == '\\' || second == '\'').then(|| quoted(rest, '\''))
}

fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let open = 1 + hashes;
    rest[open..].starts_with('"').then(|| {
        let close = format!("\"{}", "#".repeat(hashes));
        rest[open + 1..].find(&close).map_or(rest.len(), |at| open + 1 + at + close.len())
    })
}

#[test]
fn comments_strings_and_characters_are_no_code() {
    let source = "a(\"x{\\\"\", 'y', '\\'', b\"z\", r#\"q\"q\"#); // c\n/* d /* e */ f */ fn g<'l>() {}";
    let code = code_only(source);
    assert_eq!(code.len(), source.len());
    for text in ["x{", "y", "z", "q", "c", "d", "f */"] {
        assert!(!code.contains(text), "{text} in {code}");
    }
    assert!(code.ends_with("fn g<'l>() {}"), "{code}");
    assert_eq!(
        literals("f(\"one\");\nf(r#\"two\"#)")
            .iter()
            .map(|found| (found.line, found.text.as_str()))
            .collect::<Vec<_>>(),
        [(1, "one"), (2, "two")]
    );
}

#[test]
fn functions_are_measured_from_name_to_closing_brace() {
    let code = "trait T { fn a(x: [u8; 4]); }\nfn b(f: fn(u8)) {\n  if x { y }\n}\nfn c() {}";
    let found: Vec<_> =
        functions(code).into_iter().map(|function| (function.name, function.line, function.lines)).collect();
    assert_eq!(found, [("b".to_owned(), 2, 3), ("c".to_owned(), 5, 1)]);
}

#[test]
fn unit_tests_are_found_whole() {
    assert_eq!(test_lines("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}"), vec![2..6]);
    assert!(test_lines("#[cfg(test)]\nuse a::b;\n#[cfg(test)]\nmod tests;").is_empty());
}
