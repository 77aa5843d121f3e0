"""Shifted windows from their definition, one pair of places at a time."""


class WindowsByLoops:
    """Where the places of a padded square map stand once it is shifted, and who sees whom."""

    def __init__(self, side, size, shift):
        self.side, self.size, self.shift = side, size, shift
        self.padded = next(whole for whole in range(side, side + size) if whole % size == 0)

    def places(self):
        """All places of the padded map, row by row."""
        return [(row, column) for row in range(self.padded) for column in range(self.padded)]

    def is_real(self, place):
        """Whether a place is none of the padding."""
        return max(place) < self.side

    def shifted(self, place):
        """Where a place goes when the map moves up and left, what falls off coming back at the other side."""
        return tuple((axis - self.shift) % self.padded for axis in place)

    def window(self, place):
        """Row and column of the window that a place falls into."""
        return tuple(axis // self.size for axis in self.shifted(place))

    def inside(self, place):
        """Row and column of a place inside its window."""
        return tuple(axis % self.size for axis in self.shifted(place))

    def sees(self, place, other):
        """Whether two places share a window and, on either axis, have both or neither come over an edge."""
        came_over = [tuple(axis < self.shift for axis in each) for each in (place, other)]
        return self.window(place) == self.window(other) and came_over[0] == came_over[1]
