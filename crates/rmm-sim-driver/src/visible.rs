//! Which devices a process sees.

/// How many of `devices` devices a process sees, by the value of `CUDA_VISIBLE_DEVICES`. As CUDA
/// reads it: numbers, in the order in which the process counts them, up to the first that is no
/// device or is there already. Names of devices (`GPU-...`) are none here.
pub(crate) fn count(devices: usize, variable: Option<&str>) -> usize {
    let Some(list) = variable else { return devices };
    let mut seen = Vec::new();
    for word in list.split(',') {
        match word.trim().parse::<usize>() {
            Ok(number) if number < devices && !seen.contains(&number) => seen.push(number),
            _ => break,
        }
    }
    seen.len()
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn the_list_ends_at_the_first_that_is_no_device() {
        assert_eq!(count(2, None), 2);
        for (list, expected) in [
            ("0", 1),
            ("1", 1),
            ("1,0", 2),
            (" 0 , 1 ", 2),
            ("0,2,1", 1),
            ("0,0,1", 1),
            ("2", 0),
            ("-1", 0),
            ("", 0),
            ("NoDevFiles", 0),
            ("GPU-0123", 0),
        ] {
            assert_eq!(count(2, Some(list)), expected, "{list:?}");
        }
    }
}
