//! Patterns of `match` statements.

use ruff_python_ast as py;

use super::{Converter, Result};
use crate::datasets::python::NodeType;
use crate::datasets::python::ast::{NodeId, Place};

impl Converter<'_> {
    fn patterns<'p>(
        &mut self,
        node: NodeId,
        name: &'static str,
        patterns: impl IntoIterator<Item = &'p py::Pattern>,
    ) -> Result {
        for (position, pattern) in (0..).zip(patterns) {
            self.pattern(Place(node, name, Some(position)), pattern)?;
        }
        Ok(())
    }

    pub(super) fn pattern(&mut self, place: Place, pattern: &py::Pattern) -> Result {
        use py::Pattern;
        match pattern {
            Pattern::MatchValue(p) => {
                let id = self.add(place, NodeType::MatchValue)?;
                self.expression(Place(id, "value", None), &p.value)?;
            }
            Pattern::MatchSingleton(p) => {
                let id = self.add(place, NodeType::MatchSingleton)?;
                match p.value {
                    py::Singleton::None => self.nothing(id, "value"),
                    py::Singleton::True => self.text(id, "value", "True"),
                    py::Singleton::False => self.text(id, "value", "False"),
                }
            }
            Pattern::MatchSequence(p) => {
                let id = self.add(place, NodeType::MatchSequence)?;
                self.patterns(id, "patterns", &p.patterns)?;
            }
            Pattern::MatchMapping(p) => {
                let id = self.add(place, NodeType::MatchMapping)?;
                self.expressions(id, "keys", &p.keys)?;
                self.patterns(id, "patterns", &p.patterns)?;
                self.identifier(id, "rest", p.rest.as_ref());
            }
            Pattern::MatchClass(p) => {
                let id = self.add(place, NodeType::MatchClass)?;
                let keywords = &p.arguments.keywords;
                self.expression(Place(id, "cls", None), &p.cls)?;
                self.patterns(id, "patterns", &p.arguments.patterns)?;
                self.names(id, "kwd_attrs", keywords.iter().map(|k| &k.attr));
                self.patterns(id, "kwd_patterns", keywords.iter().map(|k| &k.pattern))?;
            }
            Pattern::MatchStar(p) => {
                let id = self.add(place, NodeType::MatchStar)?;
                self.identifier(id, "name", p.name.as_ref());
            }
            Pattern::MatchAs(p) => {
                let id = self.add(place, NodeType::MatchAs)?;
                match &p.pattern {
                    None => self.nothing(id, "pattern"),
                    Some(inner) => self.pattern(Place(id, "pattern", None), inner)?,
                }
                self.identifier(id, "name", p.name.as_ref());
            }
            Pattern::MatchOr(p) => {
                let id = self.add(place, NodeType::MatchOr)?;
                self.patterns(id, "patterns", &p.patterns)?;
            }
        }
        Ok(())
    }
}
