// Digits as strokes in a square of side 1, for who would rather not draw: each stroke is a row of points.

const arc = (x, y, rx, ry, from, to, steps = 48) =>
  Array.from({ length: steps + 1 }, (_, n) => {
    const angle = ((from + ((to - from) * n) / steps) * Math.PI) / 180;
    return [x + rx * Math.cos(angle), y + ry * Math.sin(angle)];
  });

export const DIGITS = [
  [arc(0.5, 0.5, 0.24, 0.38, -90, 270)],
  [[[0.34, 0.4], [0.56, 0.1], [0.56, 0.92]]],
  [[...arc(0.47, 0.32, 0.22, 0.2, -165, 25), [0.3, 0.86], [0.76, 0.86]]],
  [[...arc(0.46, 0.3, 0.22, 0.18, -150, 90), ...arc(0.46, 0.68, 0.25, 0.2, -90, 150)]],
  [[[0.56, 0.12], [0.24, 0.62], [0.78, 0.62]], [[0.6, 0.42], [0.58, 0.9]]],
  [[[0.72, 0.13], [0.36, 0.13], [0.33, 0.46], ...arc(0.48, 0.66, 0.23, 0.22, -110, 140)]],
  [[[0.6, 0.1], ...arc(0.5, 0.66, 0.22, 0.22, -165, 195)]],
  [[[0.26, 0.14], [0.74, 0.14], [0.46, 0.9]], [[0.36, 0.52], [0.68, 0.52]]],
  [[...arc(0.5, 0.3, 0.18, 0.18, 90, 450), ...arc(0.5, 0.69, 0.22, 0.21, -90, 270)]],
  [[...arc(0.48, 0.32, 0.2, 0.2, 20, 380), [0.64, 0.9]]],
];

// The strokes of a digit in a part of the square: left, top and side.
export function digitIn(digit, left, top, side) {
  return DIGITS[digit].map((stroke) => stroke.map(([x, y]) => [left + x * side, top + y * side]));
}
