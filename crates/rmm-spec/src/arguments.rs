//! The arguments of a resource, taken one at a time; an argument that is left over is an error.

use crate::error::Fault;
use crate::syntax::{Call, Setting};

pub(crate) struct Arguments<'t> {
    name: &'t str,
    end: usize,
    upstreams: std::vec::IntoIter<Call<'t>>,
    options: Vec<Setting<'t>>,
    /// Names of options that were asked for.
    known: Vec<&'static str>,
}

/// Names are the same with `_` and with `-`.
pub(crate) fn same(name: &str, other: &str) -> bool {
    let dashed = |c: u8| if c == b'_' { b'-' } else { c.to_ascii_lowercase() };
    name.len() == other.len() && name.bytes().map(dashed).eq(other.bytes().map(dashed))
}

impl<'t> Arguments<'t> {
    pub(crate) fn of(call: Call<'t>) -> Result<Self, Fault> {
        let Call { name, end, upstreams, options, .. } = call;
        for (place, setting) in options.iter().enumerate() {
            if options[..place].iter().any(|earlier| same(earlier.name, setting.name)) {
                let message = format!("`{}` is set twice", setting.name);
                return Err(Fault::at(setting.offset, message));
            }
        }
        let upstreams = upstreams.into_iter();
        Ok(Self { name, end, upstreams, options, known: Vec::new() })
    }

    /// The next resource that it is over.
    pub(crate) fn upstream(&mut self) -> Result<Call<'t>, Fault> {
        let (end, name) = (self.end, self.name);
        let missing = || Fault::at(end, format!("`{name}` needs a resource to be over"));
        self.optional_upstream().ok_or_else(missing)
    }

    /// The next resource that it is over, if there is one.
    pub(crate) fn optional_upstream(&mut self) -> Option<Call<'t>> {
        self.upstreams.next()
    }

    /// The value of an option, if it is set.
    pub(crate) fn option<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Fault> {
        self.known.push(name);
        let Some(place) = self.options.iter().position(|setting| same(setting.name, name)) else {
            return Ok(None);
        };
        let Setting { value, value_offset, .. } = self.options.remove(place);
        read(value).map(Some).map_err(|message| Fault::at(value_offset, message))
    }

    /// The value of an option that has to be set.
    pub(crate) fn needed<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Fault> {
        let value = self.option(name, read)?;
        value.ok_or_else(|| Fault::at(self.end, format!("`{}` needs `{name}=`", self.name)))
    }

    /// Refuses arguments that were not taken.
    pub(crate) fn end(mut self) -> Result<(), Fault> {
        if let Some(extra) = self.upstreams.next() {
            let message = format!("`{}` is not over this", self.name);
            return Err(Fault::at(extra.offset, message));
        }
        match self.options.first() {
            None => Ok(()),
            Some(setting) => {
                let message = if self.known.is_empty() {
                    format!("`{}` has no options", self.name)
                } else {
                    format!("`{}` has the options {}", self.name, self.known.join(", "))
                };
                Err(Fault::at(setting.offset, message))
            }
        }
    }
}
