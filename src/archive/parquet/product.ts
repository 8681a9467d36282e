/** The most digits that a decimal has. */
const MAX_DIGITS = 38;

/**
 * The product of the columns `price` and `amount`, in a type that holds it. Left to itself DuckDB keeps
 * the product of two decimals of 18 digits in as many, and fails where that is not enough.
 */
export function productSql(priceScale: number): string {
  return `(price::DECIMAL(${MAX_DIGITS},${Math.trunc(priceScale)}) * amount)`;
}
