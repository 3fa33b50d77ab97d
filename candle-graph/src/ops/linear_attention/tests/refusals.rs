//! Nothing, and what does not fit.

use super::*;

#[test]
fn nothing_gives_nothing() {
    for sizes in [vec![], vec![0, 0]] {
        let case = Case::new(&sizes, 2, (4, 3, 5));
        assert_eq!(linear_attention(case.input()).unwrap().dims(), [0, 6]);
        let reference = force_reference(|| linear_attention(case.input())).unwrap();
        assert_eq!(reference.dims(), [0, 6]);
        let packed = randn(&[0, 9], 1.0);
        let value = packed.narrow(1, 3, 6).unwrap();
        let input = LinearAttentionInput {
            value: &value,
            ..case.input()
        };
        assert_eq!(linear_attention(input).unwrap().dims(), [0, 6]);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let case = Case::new(&[3, 2], 2, (4, 4, 6));
    let refused = |input: LinearAttentionInput<'_>, words: &str| {
        let message = linear_attention(input).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    let rows = |rows: usize, columns: usize| randn(&[rows, columns], 1.0);
    let input = case.input();
    let (query, key, value) = (&rows(4, 8), &rows(5, 6), &rows(5, 7));
    refused(
        LinearAttentionInput { query, ..input },
        "query of shape [4, 8]",
    );
    refused(LinearAttentionInput { key, ..input }, "key of shape [5, 6]");
    refused(
        LinearAttentionInput { value, ..input },
        "value of shape [5, 7]",
    );
    refused(LinearAttentionInput { heads: 0, ..input }, "0 heads");
    for projection in [&rows(6, 5), &rows(0, 4)] {
        let feature_map = FeatureMap::PositiveRandom { projection };
        refused(
            LinearAttentionInput {
                feature_map,
                ..input
            },
            "expected [features, 4]",
        );
    }
    let feature_map = FeatureMap::Relu { eps: -1.0 };
    let negative = LinearAttentionInput {
        feature_map,
        ..input
    };
    refused(negative, "-1 is added to features");
    let (right, wrong) = (angles(5, 6), angles(5, 5));
    for (query, key, words) in [
        (
            &wrong,
            &right,
            "rotation of queries of shape [5, 5], expected [5, 6]",
        ),
        (
            &right,
            &wrong,
            "rotation of keys of shape [5, 5], expected [5, 6]",
        ),
    ] {
        let rotation = Some(FeatureRotation {
            query,
            key,
            pairs: RotaryPairs::PerHead,
        });
        refused(LinearAttentionInput { rotation, ..input }, words);
    }
    // A head of one feature has no pairs.
    let (narrow, none) = (rows(5, 2), angles(5, 0));
    let rotation = Some(FeatureRotation {
        query: &none,
        key: &none,
        pairs: RotaryPairs::PerHead,
    });
    let narrow = LinearAttentionInput {
        query: &narrow,
        key: &narrow,
        feature_map: FeatureMap::Simple,
        rotation,
        ..input
    };
    refused(narrow, "for 2 heads with 1 features");
}
