// Near names for a misspelt one.

/** Names in a message. */
const SHOWN_MAX = 10;

export function suggestion(name: string, known: readonly string[]): string {
  const near = known.filter((other) => distance(name, other) <= Math.max(1, Math.floor(name.length / 3)));
  if (near.length > 0) {
    return `the nearest name is ${quoted(near)}`;
  }
  return known.length === 0 ? 'the server has no policies' : `the server has ${quoted(known)}`;
}

function quoted(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_MAX).map((name) => `\`${name}\``).join(', ');
  return names.length > SHOWN_MAX ? `${shown} and others` : shown;
}

/** The number of characters to insert, delete or replace; two swapped neighbours count as one. */
function distance(a: string, b: string): number {
  let [before, last]: number[][] = [[], Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = at(last, j - 1) + Number(a[i - 1] !== b[j - 1]);
      const isSwapped = i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwapped ? at(before, j - 2) + 1 : Infinity;
      row.push(Math.min(at(last, j) + 1, at(row, j - 1) + 1, replaced, swapped));
    }
    [before, last] = [last, row];
  }
  return at(last, b.length);
}

function at(row: readonly number[] | undefined, index: number): number {
  return row?.[index] ?? Infinity;
}
