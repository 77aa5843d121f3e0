"""Kneser-Ney smoothing as the formulas stand, one token at a time, by counting in lists."""

from collections import Counter


class DirectKneserNey:
    def __init__(self, order, vocabulary, start_token, streams, continuation_counts=True):
        self.order, self.vocabulary, self.start_token = order, vocabulary, start_token
        padded = [[start_token] * (order - 1) + stream for stream in streams]
        grams = [tuple(s[i : i + order]) for s in padded for i in range(len(s) - order + 1)]
        self.counts = {order: Counter(grams)}
        for length in range(order - 1, 0, -1):
            longer = self.counts[length + 1]
            self.counts[length] = Counter(gram[1:] for gram in (longer if continuation_counts else longer.elements()))

    def probability(self, context, token):
        history = [self.start_token] * (self.order - 1) + list(context)
        return self._p(tuple(history[len(history) - self.order + 1 :]), token)

    def _p(self, history, token):
        lower = 1 / self.vocabulary if not history else self._p(history[1:], token)
        counts = self.counts[len(history) + 1]
        after = {gram[-1]: count for gram, count in counts.items() if gram[:-1] == history}
        if not after:
            return lower
        discounts = self._discounts(counts)
        kept = max(after.get(token, 0) - discounts[min(after.get(token, 0), 3)], 0)
        passed_on = sum(discounts[min(count, 3)] for count in after.values())
        return (kept + passed_on * lower) / sum(after.values())

    @staticmethod
    def _discounts(counts):
        n1, n2, n3, n4 = (sum(count == j for count in counts.values()) for j in (1, 2, 3, 4))
        if 0 not in (n1, n2, n3):
            y = n1 / (n1 + 2 * n2)
            found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
            if min(found) > 0:
                return 0, *found
        return 0, 0.5, 1, 1.5
