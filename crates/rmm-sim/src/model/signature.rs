//! The parameters of a registered kernel, as C declares them.
//!
//! ```text
//! list       parameter { "," parameter }
//! parameter  { "const" | "_Atomic" } type [ "*" ] name [ "[" elements "]" ]
//! elements   product { "+" product }
//! product    factor { "*" factor }
//! factor     number | name of an integer parameter | "gridDim.x" | "blockDim.x" | ...
//! ```
//!
//! An array parameter is a pointer whose number of elements is known, as in C99
//! (`void f(size_t n, float y[n])`).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::model::operation::Operation;

/// The dimensions of a launch: of the grid in blocks, and of a block in threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dimensions {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
}

/// What a kernel does with a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// A value that the kernel takes as it is: a number, a structure, or an address that it does
    /// not use.
    Value { is_integer: bool, is_signed: bool },
    /// The address of memory that the kernel accesses.
    Array { operation: Operation, elements: Elements },
}

/// One parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// The bytes of the value, or of one element.
    pub(crate) size: usize,
    pub(crate) form: Form,
}

impl Parameter {
    /// The bytes that a launch passes.
    pub(crate) fn passed(&self) -> usize {
        match self.form {
            Form::Value { .. } => self.size,
            Form::Array { .. } => size_of::<u64>(),
        }
    }
}

/// A sum of products.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Elements(Vec<Vec<Factor>>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Factor {
    Number(u64),
    Parameter(String),
    Grid(usize),
    Block(usize),
}

impl Elements {
    /// The number, if it is not negative and fits; `integers` has the launch's integer parameters.
    pub(crate) fn count(
        &self,
        integers: &BTreeMap<&str, i128>,
        dimensions: Dimensions,
    ) -> Option<usize> {
        let factor = |factor: &Factor| match factor {
            Factor::Number(number) => Some(i128::from(*number)),
            Factor::Parameter(name) => integers.get(name.as_str()).copied(),
            Factor::Grid(axis) => Some(i128::from(dimensions.grid[*axis])),
            Factor::Block(axis) => Some(i128::from(dimensions.block[*axis])),
        };
        let product = |factors: &Vec<Factor>| {
            factors.iter().try_fold(1_i128, |product, next| product.checked_mul(factor(next)?))
        };
        let sum = self.0.iter().try_fold(0_i128, |sum, next| sum.checked_add(product(next)?));
        usize::try_from(sum?).ok()
    }
}

/// Size, and whether it is an integer and has a sign.
fn type_named(words: &[&str]) -> Option<(usize, bool, bool)> {
    let joined = words.join(" ");
    Some(match joined.as_str() {
        "bool" | "unsigned char" | "uint8_t" => (1, true, false),
        "char" | "signed char" | "int8_t" => (1, true, true),
        "short" | "int16_t" => (2, true, true),
        "unsigned short" | "uint16_t" => (2, true, false),
        "half" | "__half" | "__nv_bfloat16" => (2, false, false),
        "int" | "int32_t" => (4, true, true),
        "unsigned" | "unsigned int" | "uint32_t" => (4, true, false),
        "float" => (4, false, false),
        "long" | "long long" | "int64_t" | "ptrdiff_t" => (8, true, true),
        "unsigned long" | "unsigned long long" | "uint64_t" | "size_t" => (8, true, false),
        "double" => (8, false, false),
        _ => {
            let bytes = joined.strip_prefix("struct(")?.strip_suffix(')')?.trim();
            (bytes.parse().ok()?, false, false)
        }
    })
}

/// Parses a list of parameters.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(list: &str) -> Result<Vec<Parameter>, String> {
    let mut parameters: Vec<Parameter> = Vec::new();
    if list.trim().is_empty() || list.trim() == "void" {
        return Ok(parameters);
    }
    for text in list.split(',') {
        let parameter =
            parse_one(text.trim()).map_err(|why| format!("`{}`: {why}", text.trim()))?;
        if parameters.iter().any(|other| other.name == parameter.name) {
            return Err(format!("two parameters have the name `{}`", parameter.name));
        }
        parameters.push(parameter);
    }
    for parameter in &parameters {
        let Form::Array { elements, .. } = &parameter.form else { continue };
        for factor in elements.0.iter().flatten() {
            let Factor::Parameter(name) = factor else { continue };
            let is_integer = |other: &Parameter| {
                other.name == *name && matches!(other.form, Form::Value { is_integer: true, .. })
            };
            if !parameters.iter().any(is_integer) {
                return Err(format!("`{name}` is not an integer parameter"));
            }
        }
    }
    Ok(parameters)
}

fn parse_one(text: &str) -> Result<Parameter, String> {
    let (declared, elements) = match text.split_once('[') {
        Some((declared, rest)) => {
            let inside = rest.strip_suffix(']').ok_or("`]` is missing")?;
            (declared, Some(parse_elements(inside)?))
        }
        None => (text, None),
    };
    let is_pointer = declared.contains('*');
    let spaced = declared.replace('*', " * ");
    let (mut is_const, mut is_atomic) = (false, false);
    let mut words: Vec<&str> = Vec::new();
    let mut is_after_star = false;
    for word in spaced.split_whitespace() {
        match word {
            "const" => is_const |= !is_after_star,
            "_Atomic" => is_atomic = true,
            "volatile" | "restrict" | "__restrict__" => {}
            "*" if is_after_star => return Err("a pointer to pointers is not supported".into()),
            "*" => is_after_star = true,
            _ => words.push(word),
        }
    }
    let name = words.pop().filter(|_| !words.is_empty()).ok_or("a type and a name are needed")?;
    let known = type_named(&words);
    let unknown =
        || format!("the type `{}` is not known; `struct(BYTES)` passes one", words.join(" "));
    let (size, form) = match elements {
        Some(_) if is_pointer => return Err("write `float y[n]` or `float *y`, not both".into()),
        Some(elements) => {
            let operation = match (is_const, is_atomic) {
                (true, _) => Operation::Read,
                (false, true) => Operation::Update,
                (false, false) => Operation::Write,
            };
            (known.ok_or_else(unknown)?.0, Form::Array { operation, elements })
        }
        None if is_pointer => {
            (size_of::<u64>(), Form::Value { is_integer: false, is_signed: false })
        }
        None => {
            let (size, is_integer, is_signed) = known.ok_or_else(unknown)?;
            (size, Form::Value { is_integer, is_signed })
        }
    };
    Ok(Parameter { name: name.to_owned(), size, form })
}

fn parse_elements(text: &str) -> Result<Elements, String> {
    let factor = |text: &str| {
        let text = text.trim();
        let axis = |name: &str| ["x", "y", "z"].iter().position(|axis| *axis == name);
        if let Ok(number) = text.parse() {
            return Ok(Factor::Number(number));
        }
        match text.split_once('.') {
            Some(("gridDim", name)) => axis(name).map(Factor::Grid),
            Some(("blockDim", name)) => axis(name).map(Factor::Block),
            Some(_) => None,
            None => {
                let is_name = !text.is_empty()
                    && text.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
                is_name.then(|| Factor::Parameter(text.to_owned()))
            }
        }
        .ok_or_else(|| format!("`{text}` is no number of elements"))
    };
    let product = |text: &str| text.split('*').map(factor).collect::<Result<Vec<_>, String>>();
    text.split('+').map(product).collect::<Result<_, _>>().map(Elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIMENSIONS: Dimensions = Dimensions { grid: [2, 3, 4], block: [32, 1, 1] };

    #[test]
    fn a_c_prototype_gives_sizes_and_operations() {
        let list = "float y[n * 2 + 1], const double *__restrict__ unused, const int x[gridDim.y * blockDim.x],\
                    _Atomic unsigned int counter[1], struct(24) meta, unsigned long long n";
        let parsed = parse(list).unwrap();
        let sizes: Vec<usize> = parsed.iter().map(Parameter::passed).collect();
        assert_eq!(sizes, [8, 8, 8, 8, 24, 8]);
        let integers = BTreeMap::from([("n", 10)]);
        let arrays: Vec<_> = parsed
            .iter()
            .filter_map(|parameter| match &parameter.form {
                Form::Array { operation, elements } => {
                    Some((*operation, parameter.size, elements.count(&integers, DIMENSIONS)))
                }
                Form::Value { .. } => None,
            })
            .collect();
        let expected = [
            (Operation::Write, 4, Some(21)),
            (Operation::Read, 4, Some(96)),
            (Operation::Update, 4, Some(1)),
        ];
        assert_eq!(arrays, expected);
    }

    #[test]
    fn a_negative_or_huge_number_of_elements_is_refused() {
        let parsed = parse("float y[n * n], int n").unwrap();
        let Form::Array { elements, .. } = &parsed[0].form else { panic!("it is an array") };
        let count = |n| elements.count(&BTreeMap::from([("n", n)]), DIMENSIONS);
        assert_eq!(count(i128::from(i64::MAX)), None);
        let parsed = parse("float y[n], int n").unwrap();
        let Form::Array { elements, .. } = &parsed[0].form else { panic!("it is an array") };
        assert_eq!(elements.count(&BTreeMap::from([("n", -1)]), DIMENSIONS), None);
    }

    #[test]
    fn malformed_lists_say_what_is_wrong() {
        for (list, part) in [
            ("float y[m], size_t n", "`m` is not an integer parameter"),
            ("float *y[n], size_t n", "not both"),
            ("float **y", "pointer to pointers"),
            ("tensor t", "the type `tensor` is not known"),
            ("float y[n", "`]` is missing"),
            ("float y[]", "no number of elements"),
            ("float", "a type and a name"),
            ("int a, int a", "two parameters"),
        ] {
            let error = parse(list).unwrap_err();
            assert!(error.contains(part), "{list}: {error}");
        }
    }
}
