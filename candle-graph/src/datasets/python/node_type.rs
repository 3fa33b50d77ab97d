//! The kinds of syntax tree nodes.

use std::fmt;

macro_rules! node_types {
    ($($variant:ident $name:literal),+ $(,)?) => {
        /// Kind of a node of a Python syntax tree, as the official code names it: the classes of
        /// Python's `ast` module in the form of the package `gast`, where arguments are names with
        /// the context `Param`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs)]
        pub enum NodeType {
            $($variant),+
        }

        impl NodeType {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name of the kind, as it stands in vocabularies.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

node_types! {
    Module "Module",
    FunctionDef "FunctionDef",
    AsyncFunctionDef "AsyncFunctionDef",
    ClassDef "ClassDef",
    Return "Return",
    Delete "Delete",
    Assign "Assign",
    AugAssign "AugAssign",
    AnnAssign "AnnAssign",
    For "For",
    AsyncFor "AsyncFor",
    While "While",
    If "If",
    With "With",
    AsyncWith "AsyncWith",
    Match "Match",
    Raise "Raise",
    Try "Try",
    TryStar "TryStar",
    Assert "Assert",
    Import "Import",
    ImportFrom "ImportFrom",
    Global "Global",
    Nonlocal "Nonlocal",
    Expr "Expr",
    Pass "Pass",
    Break "Break",
    Continue "Continue",
    BoolOp "BoolOp",
    NamedExpr "NamedExpr",
    BinOp "BinOp",
    UnaryOp "UnaryOp",
    Lambda "Lambda",
    IfExp "IfExp",
    Dict "Dict",
    Set "Set",
    ListComp "ListComp",
    SetComp "SetComp",
    DictComp "DictComp",
    GeneratorExp "GeneratorExp",
    Await "Await",
    Yield "Yield",
    YieldFrom "YieldFrom",
    Compare "Compare",
    Call "Call",
    FormattedValue "FormattedValue",
    JoinedStr "JoinedStr",
    Constant "Constant",
    Attribute "Attribute",
    Subscript "Subscript",
    Starred "Starred",
    Name "Name",
    List "List",
    Tuple "Tuple",
    Slice "Slice",
    Load "Load",
    Store "Store",
    Del "Del",
    Param "Param",
    And "And",
    Or "Or",
    Add "Add",
    Sub "Sub",
    Mult "Mult",
    MatMult "MatMult",
    Div "Div",
    Mod "Mod",
    Pow "Pow",
    LShift "LShift",
    RShift "RShift",
    BitOr "BitOr",
    BitXor "BitXor",
    BitAnd "BitAnd",
    FloorDiv "FloorDiv",
    Invert "Invert",
    Not "Not",
    UAdd "UAdd",
    USub "USub",
    Eq "Eq",
    NotEq "NotEq",
    Lt "Lt",
    LtE "LtE",
    Gt "Gt",
    GtE "GtE",
    Is "Is",
    IsNot "IsNot",
    In "In",
    NotIn "NotIn",
    Comprehension "comprehension",
    ExceptHandler "ExceptHandler",
    Arguments "arguments",
    Keyword "keyword",
    Alias "alias",
    WithItem "withitem",
    MatchCase "match_case",
    MatchValue "MatchValue",
    MatchSingleton "MatchSingleton",
    MatchSequence "MatchSequence",
    MatchMapping "MatchMapping",
    MatchClass "MatchClass",
    MatchStar "MatchStar",
    MatchAs "MatchAs",
    MatchOr "MatchOr",
}

impl fmt::Display for NodeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
