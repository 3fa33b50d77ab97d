"""Functions for the example `code2`."""


def f1_score(pred, label):
    correct = pred == label
    tp = (correct & label).sum()
    fn = (~correct & label).sum()
    fp = (~correct & ~label).sum()
    return tp / (tp + (fn + fp) / 2)


def greatest_common_divisor(a, b):
    if b == 0:
        return a
    return greatest_common_divisor(b, a % b)


class Counter:
    def __init__(self, start=0):
        self.count = start

    def add_all(self, numbers, *, twice=False):
        for number in numbers:
            if number < 0:
                continue
            self.count += 2 * number if twice else number
        return self.count
