/**
 * The displayed matrix as the text of a file. Rows are queries and columns are keys, unless swapped.
 */

/** The first `visible` rows as lists, each number as short as its precision allows. */
export function tableOf(matrix, columns, visible) {
  return Array.from({ length: visible }, (_, row) => {
    const line = matrix.subarray(row * columns, (row + 1) * columns);
    return Array.from(line, (weight) => Number(weight.toPrecision(6)));
  });
}

/** A table with the tokens in its first line and column, in the displayed orientation. */
export function asCsv(table, rows, columns, transposed) {
  const turned = () => columns.map((_, at) => table.map((line) => line[at]));
  const [corner, down, across, body] = transposed
    ? ["key \\ query", columns, rows, turned()]
    : ["query \\ key", rows, columns, table];
  const lines = [[corner, ...across], ...body.map((line, at) => [down[at], ...line])];
  return lines.map((line) => `${line.map(field).join(",")}\n`).join("");
}

/** The table with its tokens and the largest rounding error of its numbers. */
export function asJson(table, rows, columns, { address, heads, levels }) {
  const error = Number((1 / levels + 0.25 / levels ** 2).toPrecision(2));
  return `${JSON.stringify({ address, heads, queries: rows, keys: columns, weights: table, max_error: error })}\n`;
}

function field(value) {
  const text = String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
