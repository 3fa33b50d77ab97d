//! Input that has no graph is refused by name.

use candle_graph::datasets::python::{NoFunction, PythonError, PythonFunction};

fn refused(source: &str) -> PythonError {
    PythonFunction::parse(source).unwrap_err()
}

#[test]
fn syntax_errors_name_line_and_column() {
    for (source, at) in [
        ("def f(:\n    pass\n", (1, 7)),
        ("def f():\n    return 'open\n", (2, 12)),
        ("def f():\n    x = (1,\n", (3, 1)),
        ("def f():\nreturn 1\n", (2, 1)),
        ("def f():\n    a = 1\n      b = 2\n", (3, 1)),
        ("def f():\n    été = 1 1\n", (2, 13)),
        ("def f():\n    if a:\n        b\n\tc\n", (4, 2)),
        ("x = '''never closed\n", (1, 5)),
    ] {
        match refused(source) {
            PythonError::Syntax {
                line,
                column,
                message,
            } => {
                assert_eq!((line, column), at, "{source:?}: {message}");
                assert!(!message.is_empty());
            }
            other => panic!("{source:?}: {other}"),
        }
    }
    let message = refused("def f(:\n    pass\n").to_string();
    assert!(message.starts_with("line 1, column 7: "), "{message}");
}

#[test]
fn source_without_a_function_is_refused() {
    for empty in ["", "\n\n", "   ", "# nothing\n"] {
        assert_eq!(refused(empty), PythonError::NoFunction(NoFunction::Empty));
    }
    let first = refused("\nimport os\ndef f(): pass\n");
    assert_eq!(
        first,
        PythonError::NoFunction(NoFunction::First { line: 2 })
    );
    assert_eq!(PythonFunction::parse_all("import os\n"), Ok(Vec::new()));
}

#[test]
fn statements_in_the_wrong_place_are_named() {
    let loops = refused("def f():\n    if a:\n        break\n").to_string();
    assert_eq!(loops, "line 3, column 9: `break` outside a loop");
    let function = refused("def f(): pass\nreturn 1\n").to_string();
    assert_eq!(function, "line 2, column 1: `return` outside a function");
}

#[test]
fn syntax_of_later_pythons_is_named() {
    for (source, what) in [
        ("def f[T](x: T): pass\n", "a list of type parameters"),
        ("def f():\n    type A = int\n", "a `type` statement"),
        ("def f():\n    return t'{x}'\n", "a template string"),
    ] {
        let message = refused(source).to_string();
        assert!(message.contains(what), "{message}");
    }
}

/// Neither the parser's recursion nor the release of its tree may run out of stack, whether the text
/// is valid or not.
#[test]
fn hostile_nesting_is_refused() {
    let repeated = [
        ("(", "", ")"),
        ("[", "", "]"),
        ("{", "", "}"),
        ("{0:", "0", "}"),
        ("f(", "", ")"),
        ("x[", "0", "]"),
        ("-", "0", ""),
        ("not ", "0", ""),
        ("await ", "0", ""),
        ("2**", "0", ""),
        ("", "0", "+0"),
        ("", "a", ".a"),
        ("", "a", "()"),
        ("", "a", "[0]"),
        ("lambda: ", "0", ""),
        ("lambda a, b=", "0", ": 0"),
        ("0 if a else ", "0", ""),
        ("0 if ", "0", " else 0"),
        ("0 if a else lambda a, b=", "0", ": 0"),
        ("(yield ", "0", ")"),
        ("(a := ", "0", ")"),
        ("*", "a", ""),
        ("[a for a in ", "0", "]"),
        ("f'{", "0", "}'"),
        ("f'{0:{", "0", "}}'"),
        ("if a: ", "0", ""),
        ("def f(): ", "0", ""),
        ("class A(", "", "): pass"),
        ("@", "a", ""),
        ("0 ", "", ""),
        ("a < ", "0", ""),
        ("try: ", "0", ""),
        ("match a: case ", "0", ""),
    ];
    for (open, middle, close) in repeated {
        for times in [10_000, 100_000] {
            let (open_all, close_all) = (open.repeat(times), close.repeat(times));
            let whole = format!("{open_all}{middle}{close_all}");
            let unclosed = (!open.is_empty()).then(|| format!("{open_all}{middle}"));
            for body in std::iter::once(whole).chain(unclosed) {
                let source = format!("def f():\n    return {body}\n");
                let error = refused(&source);
                let deep = matches!(
                    error,
                    PythonError::TooDeep
                        | PythonError::Syntax { .. }
                        | PythonError::TooLarge { .. }
                );
                assert!(deep, "{open:?}: {error}");
                let statement = PythonFunction::parse(&format!("def f():\n    {body}\n"));
                assert!(statement.is_err(), "{open:?} as a statement");
            }
        }
    }
    let parentheses = format!(
        "def f():\n    return {}0{}\n",
        "(".repeat(10_000),
        ")".repeat(10_000)
    );
    assert_eq!(refused(&parentheses), PythonError::TooDeep);
    let blocks: String = (1..10_000)
        .map(|i| format!("{}if a:\n", " ".repeat(i % 500)))
        .collect();
    assert!(PythonFunction::parse(&format!("def f():\n{blocks}")).is_err());
    let indented: String = (1..1_500)
        .map(|i| format!("{}if a:\n", " ".repeat(i)))
        .collect();
    let indented = format!("def f():\n{indented}{}pass\n", " ".repeat(1_500));
    assert_eq!(refused(&indented), PythonError::TooDeep);
    let elifs = format!(
        "def f():\n    if a: pass\n{}",
        "    elif a: pass\n".repeat(3_000)
    );
    assert_eq!(refused(&elifs), PythonError::TooDeep);
}

/// What the official code can read must not be refused: 300 levels, and lists of any length.
#[test]
fn long_lists_and_what_official_graphs_hold_is_no_hostile_nesting() {
    for source in [
        format!("def f():\n    return {}\n", ["a"; 300].join(" + ")),
        format!(
            "def f():\n    if a: pass\n{}",
            "    elif a: pass\n".repeat(180)
        ),
        format!(
            "def f():\n    return [{}]\n",
            "(1, {2: -3}), ".repeat(1_000)
        ),
        format!(
            "def f():\n    return {{{}}}\n",
            "'a': lambda x, y=1: not x, ".repeat(1_000)
        ),
        format!("def f():\n{}", "    x = g(x)[0].y\n".repeat(1_000)),
        format!("def f():\n    return {}\n", ["a"; 2_000].join(" or ")),
        format!("def f():\n    return {}\n", ["'a'"; 2_000].join(" ")),
    ] {
        let shown: String = source.chars().take(60).collect();
        assert!(PythonFunction::parse(&source).is_ok(), "{shown}");
    }
}

#[test]
fn what_is_too_large_is_refused_before_it_costs() {
    let long = format!("def f():\n    x = '{}'\n", "a".repeat(5 << 20));
    let error = refused(&long).to_string();
    assert!(
        error.contains("bytes of source text, more than the supported 4194304"),
        "{error}"
    );
    let many = format!("def f():\n{}", "    x = 1\n".repeat(10_000));
    let error = refused(&many).to_string();
    assert!(
        error.contains("nodes of a syntax tree, more than the supported 20000"),
        "{error}"
    );
    // Every read could see every one of the assignments.
    let assignments = "    if a: x = 1\n".repeat(1_500);
    let reads = "    x\n".repeat(1_500);
    let error = refused(&format!("def f(a):\n{assignments}{reads}")).to_string();
    assert!(error.contains("edges of a program's graph"), "{error}");
    let digits = refused(&format!("def f():\n    return {}\n", "9".repeat(5_000))).to_string();
    assert!(digits.contains("5000 digits of a whole number"), "{digits}");
}

#[test]
fn bytes_that_are_no_text_are_placed() {
    assert_eq!(PythonFunction::decode("é".as_bytes()), Ok("é"));
    let error = PythonFunction::decode(b"def f():\n    return '\xe9'\n").unwrap_err();
    assert_eq!(
        error,
        PythonError::NotUtf8 {
            line: 2,
            offset: 21
        }
    );
    let nul = PythonFunction::parse("def f():\n    return \0\n");
    assert!(
        matches!(nul, Err(PythonError::Syntax { line: 2, .. })),
        "{nul:?}"
    );
}
