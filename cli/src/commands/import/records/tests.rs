use super::*;

const START: Place = Place { line: 1, byte: 0 };

/// Lines, and fields joined by `|`.
fn read(text: &[u8]) -> Vec<(u64, Result<String, RecordFault>)> {
    let mut reader = RecordReader::new(text, b',', START);
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push((record.line, record.fields.map(|fields| fields.join("|"))));
    }
    records
}

fn ok(line: u64, fields: &str) -> (u64, Result<String, RecordFault>) {
    (line, Ok(fields.to_owned()))
}

#[test]
fn every_kind_of_line_end_counts_as_one_line() {
    for end in ["\n", "\r\n", "\r"] {
        let text = format!("a,b{end}{end}c,d{end}\"x{end}y\",z{end}e,f");
        let quoted = format!("x{end}y|z");
        assert_eq!(read(text.as_bytes()), [ok(1, "a|b"), ok(3, "c|d"), ok(4, &quoted), ok(6, "e|f")], "{end:?}");
    }
}

#[test]
fn quotes_hold_delimiters_and_quotes() {
    assert_eq!(read(b"\"a,1\",\"say \"\"hi\"\"\"\n,\n"), [ok(1, "a,1|say \"hi\""), ok(2, "|")]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_field() {
    assert_eq!(read(b"\xef\xbb\xbfemail,brand\nx,y"), [ok(1, "email|brand"), ok(2, "x|y")]);
    assert_eq!(read(b"\xef\xbb\xbf\"email\"\n"), [ok(1, "email")]);
}

#[test]
fn a_file_of_nothing_has_no_record() {
    for text in ["", "\n\r\n\n", "\u{feff}"] {
        assert_eq!(read(text.as_bytes()), [], "{text:?}");
    }
}

#[test]
fn a_quote_that_is_never_closed_is_a_fault_of_the_record_it_begins() {
    assert_eq!(read(b"a,b\nc,\"d\ne,f\n"), [ok(1, "a|b"), (2, Err(RecordFault::OpenQuote))]);
    assert_eq!(read(b"a,\"b\""), [ok(1, "a|b")]);
}

#[test]
fn what_is_no_utf8_is_named_by_its_field_and_harms_no_other_record() {
    assert_eq!(read(b"a,Z\xfcrich\nb,c\n"), [(1, Err(RecordFault::NotUtf8(1))), ok(2, "b|c")]);
}

#[test]
fn a_record_above_the_limit_is_read_past() {
    let long = "x".repeat(10 * MOST_RECORD_BYTES);
    for long in [long.clone(), format!("\"{long}\n{long}\"")] {
        let lines = long.lines().count() as u64;
        let text = format!("a,b\nc,{long}\nd,e\n");
        assert_eq!(read(text.as_bytes()), [ok(1, "a|b"), (2, Err(RecordFault::TooLarge)), ok(2 + lines, "d|e")]);
    }
    let many = ",".repeat(3 * MOST_FIELDS);
    assert_eq!(read(format!("{many}\nd,e\n").as_bytes()), [(1, Err(RecordFault::TooManyFields)), ok(2, "d|e")]);
}

#[test]
fn a_record_just_below_the_limit_is_whole() {
    let long = "x".repeat(MOST_RECORD_BYTES - 1);
    assert_eq!(read(format!("{long}\n").as_bytes()), [ok(1, &long)]);
}

#[test]
fn reading_from_any_place_gives_what_reading_through_gives() {
    for end in ["\n", "\r\n", "\r"] {
        let text = format!("\u{feff}a,b{end}\"c{end}d\",e{end}{end}f,g{end}h,i{end}").into_bytes();
        let mut through = RecordReader::new(text.as_slice(), b',', START);
        let mut count = 0;
        while let Some(record) = {
            let place = through.place();
            let from = usize::try_from(place.byte).unwrap();
            let again = RecordReader::new(&text[from..], b',', place).next().unwrap();
            let record = through.next().unwrap();
            assert_eq!(again, record, "{end:?} from {place:?}");
            record
        } {
            count += 1;
            assert!(record.fields.is_ok());
        }
        assert_eq!(count, 4);
    }
}
