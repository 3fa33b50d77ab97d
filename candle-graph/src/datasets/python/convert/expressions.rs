//! Expressions.

use ruff_python_ast as py;
use ruff_text_size::Ranged;

use super::{Converter, Result};
use crate::datasets::python::NodeType;
use crate::datasets::python::ast::{NodeId, Place};
use crate::datasets::python::literals;

impl Converter<'_> {
    pub(super) fn expressions<'e>(
        &mut self,
        node: NodeId,
        name: &'static str,
        expressions: impl IntoIterator<Item = &'e py::Expr>,
    ) -> Result {
        for (position, expression) in (0..).zip(expressions) {
            self.expression(Place(node, name, Some(position)), expression)?;
        }
        Ok(())
    }

    pub(super) fn optional(
        &mut self,
        node: NodeId,
        name: &'static str,
        expression: Option<&py::Expr>,
    ) -> Result {
        match expression {
            Some(expression) => self.expression(Place(node, name, None), expression),
            None => {
                self.nothing(node, name);
                Ok(())
            }
        }
    }

    pub(super) fn expression(&mut self, place: Place, expression: &py::Expr) -> Result {
        use py::Expr;
        match expression {
            Expr::BoolOp(e) => {
                let id = self.add(place, NodeType::BoolOp)?;
                let operator = match e.op {
                    py::BoolOp::And => NodeType::And,
                    py::BoolOp::Or => NodeType::Or,
                };
                self.add(Place(id, "op", None), operator)?;
                self.expressions(id, "values", &e.values)?;
            }
            Expr::Named(e) => {
                let id = self.add(place, NodeType::NamedExpr)?;
                self.expression(Place(id, "target", None), &e.target)?;
                self.expression(Place(id, "value", None), &e.value)?;
            }
            Expr::BinOp(e) => {
                let id = self.add(place, NodeType::BinOp)?;
                self.expression(Place(id, "left", None), &e.left)?;
                self.operator(id, e.op)?;
                self.expression(Place(id, "right", None), &e.right)?;
            }
            Expr::UnaryOp(e) => {
                let id = self.add(place, NodeType::UnaryOp)?;
                let operator = match e.op {
                    py::UnaryOp::Invert => NodeType::Invert,
                    py::UnaryOp::Not => NodeType::Not,
                    py::UnaryOp::UAdd => NodeType::UAdd,
                    py::UnaryOp::USub => NodeType::USub,
                };
                self.add(Place(id, "op", None), operator)?;
                self.expression(Place(id, "operand", None), &e.operand)?;
            }
            Expr::Lambda(e) => {
                let id = self.add(place, NodeType::Lambda)?;
                self.arguments(Place(id, "args", None), e.parameters.as_deref())?;
                self.expression(Place(id, "body", None), &e.body)?;
            }
            Expr::If(e) => {
                let id = self.add(place, NodeType::IfExp)?;
                self.expression(Place(id, "test", None), &e.test)?;
                self.expression(Place(id, "body", None), &e.body)?;
                self.expression(Place(id, "orelse", None), &e.orelse)?;
            }
            Expr::Dict(e) => {
                let id = self.add(place, NodeType::Dict)?;
                for (position, item) in (0..).zip(&e.items) {
                    let place = Place(id, "keys", Some(position));
                    match &item.key {
                        Some(key) => self.expression(place, key)?,
                        None => self.ast.set(place, None::<String>),
                    }
                }
                self.expressions(id, "values", e.items.iter().map(|item| &item.value))?;
            }
            Expr::Set(e) => {
                let id = self.add(place, NodeType::Set)?;
                self.expressions(id, "elts", &e.elts)?;
            }
            Expr::ListComp(e) => {
                self.comprehension(place, NodeType::ListComp, &e.elt, &e.generators)?;
            }
            Expr::SetComp(e) => {
                self.comprehension(place, NodeType::SetComp, &e.elt, &e.generators)?;
            }
            Expr::Generator(e) => {
                self.comprehension(place, NodeType::GeneratorExp, &e.elt, &e.generators)?;
            }
            Expr::DictComp(e) => {
                let id = self.add(place, NodeType::DictComp)?;
                let Some(key) = &e.key else {
                    return Err(self.unsupported("unpacking in a comprehension", id));
                };
                self.expression(Place(id, "key", None), key)?;
                self.expression(Place(id, "value", None), &e.value)?;
                self.generators(id, &e.generators)?;
            }
            Expr::Await(e) => {
                let id = self.add(place, NodeType::Await)?;
                self.expression(Place(id, "value", None), &e.value)?;
            }
            Expr::Yield(e) => {
                let id = self.add(place, NodeType::Yield)?;
                self.optional(id, "value", e.value.as_deref())?;
            }
            Expr::YieldFrom(e) => {
                let id = self.add(place, NodeType::YieldFrom)?;
                self.expression(Place(id, "value", None), &e.value)?;
            }
            Expr::Compare(e) => {
                let id = self.add(place, NodeType::Compare)?;
                self.expression(Place(id, "left", None), &e.left)?;
                for (position, op) in (0..).zip(&e.ops) {
                    self.add(Place(id, "ops", Some(position)), comparison(*op))?;
                }
                self.expressions(id, "comparators", &e.comparators)?;
            }
            Expr::Call(e) => {
                let id = self.add(place, NodeType::Call)?;
                self.expression(Place(id, "func", None), &e.func)?;
                self.expressions(id, "args", &e.arguments.args)?;
                self.keywords(id, &e.arguments.keywords)?;
            }
            Expr::FString(e) => self.f_string(place, &e.value)?,
            Expr::StringLiteral(e) => {
                let text: String = e.value.iter().map(|part| &*part.value).collect();
                self.constant(place, Some(text))?;
            }
            Expr::BytesLiteral(e) => {
                let bytes = e.value.iter().flat_map(|part| part.value.iter().copied());
                self.constant(place, Some(literals::bytes(bytes)))?;
            }
            Expr::NumberLiteral(e) => {
                self.constant(place, Some(literals::number(&e.value)?))?;
            }
            Expr::BooleanLiteral(e) => {
                let text = if e.value { "True" } else { "False" };
                self.constant(place, Some(text.to_string()))?;
            }
            Expr::NoneLiteral(_) => self.constant(place, None)?,
            Expr::EllipsisLiteral(_) => self.constant(place, Some("Ellipsis".to_string()))?,
            Expr::Attribute(e) => {
                let id = self.add(place, NodeType::Attribute)?;
                self.expression(Place(id, "value", None), &e.value)?;
                self.text(id, "attr", e.attr.as_str());
                self.context(id, e.ctx)?;
            }
            Expr::Subscript(e) => {
                let id = self.add(place, NodeType::Subscript)?;
                self.expression(Place(id, "value", None), &e.value)?;
                self.expression(Place(id, "slice", None), &e.slice)?;
                self.context(id, e.ctx)?;
            }
            Expr::Starred(e) => {
                let id = self.add(place, NodeType::Starred)?;
                self.expression(Place(id, "value", None), &e.value)?;
                self.context(id, e.ctx)?;
            }
            Expr::Name(e) => self.name(place, e.id.as_str(), context(e.ctx), None)?,
            Expr::List(e) => {
                let id = self.add(place, NodeType::List)?;
                self.expressions(id, "elts", &e.elts)?;
                self.context(id, e.ctx)?;
            }
            Expr::Tuple(e) => {
                let id = self.add(place, NodeType::Tuple)?;
                self.expressions(id, "elts", &e.elts)?;
                self.context(id, e.ctx)?;
            }
            Expr::Slice(e) => {
                let id = self.add(place, NodeType::Slice)?;
                self.optional(id, "lower", e.lower.as_deref())?;
                self.optional(id, "upper", e.upper.as_deref())?;
                self.optional(id, "step", e.step.as_deref())?;
            }
            Expr::TString(_) | Expr::IpyEscapeCommand(_) => {
                let id = self.add(place, NodeType::Constant)?;
                self.ast.nodes[id].offset = expression.start().to_usize();
                return Err(self.unsupported("a template string", id));
            }
        }
        Ok(())
    }

    /// A name; those of arguments may have an annotation.
    pub(super) fn name(
        &mut self,
        place: Place,
        name: &str,
        context: NodeType,
        annotation: Option<&py::Expr>,
    ) -> Result {
        let id = self.add(place, NodeType::Name)?;
        self.text(id, "id", name);
        self.add(Place(id, "ctx", None), context)?;
        self.optional(id, "annotation", annotation)?;
        self.nothing(id, "type_comment");
        Ok(())
    }

    fn constant(&mut self, place: Place, value: Option<String>) -> Result {
        let id = self.add(place, NodeType::Constant)?;
        self.ast.set(Place(id, "value", None), value);
        self.nothing(id, "kind");
        Ok(())
    }

    fn context(&mut self, node: NodeId, ctx: py::ExprContext) -> Result {
        self.add(Place(node, "ctx", None), context(ctx))?;
        Ok(())
    }

    pub(super) fn operator(&mut self, node: NodeId, operator: py::Operator) -> Result {
        let node_type = match operator {
            py::Operator::Add => NodeType::Add,
            py::Operator::Sub => NodeType::Sub,
            py::Operator::Mult => NodeType::Mult,
            py::Operator::MatMult => NodeType::MatMult,
            py::Operator::Div => NodeType::Div,
            py::Operator::Mod => NodeType::Mod,
            py::Operator::Pow => NodeType::Pow,
            py::Operator::LShift => NodeType::LShift,
            py::Operator::RShift => NodeType::RShift,
            py::Operator::BitOr => NodeType::BitOr,
            py::Operator::BitXor => NodeType::BitXor,
            py::Operator::BitAnd => NodeType::BitAnd,
            py::Operator::FloorDiv => NodeType::FloorDiv,
        };
        self.add(Place(node, "op", None), node_type)?;
        Ok(())
    }

    pub(super) fn keywords(&mut self, node: NodeId, keywords: &[py::Keyword]) -> Result {
        for (position, keyword) in (0..).zip(keywords) {
            let id = self.add(Place(node, "keywords", Some(position)), NodeType::Keyword)?;
            self.identifier(id, "arg", keyword.arg.as_ref());
            self.expression(Place(id, "value", None), &keyword.value)?;
        }
        Ok(())
    }

    pub(super) fn arguments(
        &mut self,
        place: Place,
        parameters: Option<&py::Parameters>,
    ) -> Result {
        let empty = py::Parameters::default();
        let parameters = parameters.unwrap_or(&empty);
        let id = self.add(place, NodeType::Arguments)?;
        self.parameters(id, "args", &parameters.args)?;
        self.parameters(id, "posonlyargs", &parameters.posonlyargs)?;
        self.star_parameter(id, "vararg", parameters.vararg.as_deref())?;
        self.parameters(id, "kwonlyargs", &parameters.kwonlyargs)?;
        for (position, parameter) in (0..).zip(&parameters.kwonlyargs) {
            let place = Place(id, "kw_defaults", Some(position));
            match &parameter.default {
                Some(default) => self.expression(place, default)?,
                None => self.ast.set(place, None::<String>),
            }
        }
        self.star_parameter(id, "kwarg", parameters.kwarg.as_deref())?;
        let with_default = parameters.posonlyargs.iter().chain(&parameters.args);
        self.expressions(
            id,
            "defaults",
            with_default.filter_map(|parameter| parameter.default.as_deref()),
        )
    }

    fn parameters(
        &mut self,
        node: NodeId,
        name: &'static str,
        parameters: &[py::ParameterWithDefault],
    ) -> Result {
        for (position, with_default) in (0..).zip(parameters) {
            let place = Place(node, name, Some(position));
            self.parameter(place, &with_default.parameter)?;
        }
        Ok(())
    }

    fn star_parameter(
        &mut self,
        node: NodeId,
        name: &'static str,
        parameter: Option<&py::Parameter>,
    ) -> Result {
        match parameter {
            Some(parameter) => self.parameter(Place(node, name, None), parameter),
            None => {
                self.nothing(node, name);
                Ok(())
            }
        }
    }

    fn parameter(&mut self, place: Place, parameter: &py::Parameter) -> Result {
        let annotation = parameter.annotation.as_deref();
        self.name(place, parameter.name.as_str(), NodeType::Param, annotation)
    }

    fn comprehension(
        &mut self,
        place: Place,
        node_type: NodeType,
        element: &py::Expr,
        generators: &[py::Comprehension],
    ) -> Result {
        let id = self.add(place, node_type)?;
        self.expression(Place(id, "elt", None), element)?;
        self.generators(id, generators)
    }

    fn generators(&mut self, node: NodeId, generators: &[py::Comprehension]) -> Result {
        for (position, generator) in (0..).zip(generators) {
            let place = Place(node, "generators", Some(position));
            let id = self.add(place, NodeType::Comprehension)?;
            self.expression(Place(id, "target", None), &generator.target)?;
            self.expression(Place(id, "iter", None), &generator.iter)?;
            self.expressions(id, "ifs", &generator.ifs)?;
            self.text(id, "is_async", if generator.is_async { "1" } else { "0" });
        }
        Ok(())
    }

    /// Adjacent literals of an f-string are one constant, whichever of its parts they stand in.
    fn f_string(&mut self, place: Place, value: &py::FStringValue) -> Result {
        let id = self.add(place, NodeType::JoinedStr)?;
        let mut parts = Parts::default();
        for part in value {
            match part {
                py::FStringPart::Literal(literal) => parts.literal.push_str(&literal.value),
                py::FStringPart::FString(string) => {
                    self.interpolated(id, &mut parts, &string.elements)?;
                }
            }
        }
        self.end_literal(id, &mut parts)
    }

    fn interpolated(
        &mut self,
        node: NodeId,
        parts: &mut Parts,
        elements: &[py::InterpolatedStringElement],
    ) -> Result {
        for element in elements {
            let value = match element {
                py::InterpolatedStringElement::Literal(literal) => {
                    parts.literal.push_str(&literal.value);
                    continue;
                }
                py::InterpolatedStringElement::Interpolation(value) => value,
            };
            if let Some(debug) = &value.debug_text {
                parts.literal.push_str(debug.as_str());
            }
            self.end_literal(node, parts)?;
            let place = Place(node, "values", Some(parts.count));
            parts.count += 1;
            let id = self.add(place, NodeType::FormattedValue)?;
            self.expression(Place(id, "value", None), &value.expression)?;
            // `{x=}` shows the value as `repr` does, unless it says otherwise.
            let conversion = match (&value.debug_text, value.conversion, &value.format_spec) {
                (Some(_), py::ConversionFlag::None, None) => py::ConversionFlag::Repr,
                (_, conversion, _) => conversion,
            };
            self.text(id, "conversion", (conversion as i8).to_string());
            match &value.format_spec {
                None => self.nothing(id, "format_spec"),
                Some(spec) => {
                    let spec_id = self.add(Place(id, "format_spec", None), NodeType::JoinedStr)?;
                    let mut inner = Parts::default();
                    self.interpolated(spec_id, &mut inner, &spec.elements)?;
                    self.end_literal(spec_id, &mut inner)?;
                }
            }
        }
        Ok(())
    }

    fn end_literal(&mut self, node: NodeId, parts: &mut Parts) -> Result {
        if parts.literal.is_empty() {
            return Ok(());
        }
        let text = std::mem::take(&mut parts.literal);
        let place = Place(node, "values", Some(parts.count));
        parts.count += 1;
        self.constant(place, Some(text))
    }
}

/// What of an f-string is done.
#[derive(Default)]
struct Parts {
    /// Nodes made.
    count: u32,
    /// Text that waits for more.
    literal: String,
}

/// The context node of a name or target.
fn context(context: py::ExprContext) -> NodeType {
    match context {
        py::ExprContext::Load | py::ExprContext::Invalid => NodeType::Load,
        py::ExprContext::Store => NodeType::Store,
        py::ExprContext::Del => NodeType::Del,
    }
}

fn comparison(operator: py::CmpOp) -> NodeType {
    match operator {
        py::CmpOp::Eq => NodeType::Eq,
        py::CmpOp::NotEq => NodeType::NotEq,
        py::CmpOp::Lt => NodeType::Lt,
        py::CmpOp::LtE => NodeType::LtE,
        py::CmpOp::Gt => NodeType::Gt,
        py::CmpOp::GtE => NodeType::GtE,
        py::CmpOp::Is => NodeType::Is,
        py::CmpOp::IsNot => NodeType::IsNot,
        py::CmpOp::In => NodeType::In,
        py::CmpOp::NotIn => NodeType::NotIn,
    }
}
