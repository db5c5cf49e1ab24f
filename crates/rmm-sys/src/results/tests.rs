//! Tests of the table itself; `tests/constants.rs` compares it with CUDA's header.

use super::TABLE;

#[test]
fn the_table_is_sorted_for_the_binary_search() {
    for pair in TABLE.windows(2) {
        assert!(pair[0].code.0 < pair[1].code.0, "{} before {}", pair[0].name, pair[1].name);
    }
}

#[test]
fn every_text_fits_after_a_colon() {
    for row in TABLE {
        assert!(
            !row.text.is_empty() && !row.text.ends_with(['.', ' ']),
            "{}: {:?}",
            row.name,
            row.text
        );
        assert!(row.text.is_ascii() && !row.text.contains('\n'), "{}: {:?}", row.name, row.text);
        let first = row.text.split(' ').next().unwrap_or_default();
        let is_name = first.chars().all(char::is_uppercase) || first == "NVLink";
        assert!(is_name || first.starts_with(char::is_lowercase), "{}: {:?}", row.name, row.text);
    }
}

#[test]
fn a_constant_is_named_as_in_cuda() {
    for row in TABLE {
        assert!(row.name == "CUDA_SUCCESS" || row.name.starts_with("CUDA_ERROR_"), "{}", row.name);
        assert_eq!(row.code.name(), Some(row.name));
    }
}
