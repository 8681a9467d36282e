/** The most digits that a decimal has. */
const MAX_DIGITS = 38;

/**
 * The product of the columns `price` and `amount`, in a type that holds it. Left to itself DuckDB keeps
 * the product of two decimals of 18 digits in as many, and fails where that is not enough.
 */
export function productSql(priceScale: number): string {
  return `(price::DECIMAL(${MAX_DIGITS},${Math.trunc(priceScale)}) * amount)`;
}

/**
 * The same where the product of all digits would be too long: exactly, or an error when it is met.
 * Whole and broken parts are multiplied with each other, so that only what is there takes room.
 *
 * @param scales digits after the point of price, amount and product
 */
export function longProductSql(scales: {
  readonly price: number;
  readonly amount: number;
  readonly product: number;
}): string {
  const said = `concat('the total of ', price, ' times ', amount, ' has more digits than a number has here; tapekeep export writes it in full')`;
  // The broken parts alone have a product without a type.
  if (scales.price + scales.amount > MAX_DIGITS) return `error(${said})`;
  const decimal = (scale: number) => `DECIMAL(${MAX_DIGITS},${Math.trunc(scale)})`;
  const whole = (name: string) => `trunc(${name})::${decimal(0)}`;
  const broken = (name: 'price' | 'amount') =>
    `(${name} - trunc(${name}))::${decimal(scales[name])}`;
  const least = `(${broken('price')} * ${broken('amount')})`;
  const parts = [
    `(${whole('price')} * ${whole('amount')})`,
    `(${whole('price')} * ${broken('amount')})`,
    `(${broken('price')} * ${whole('amount')})`,
    least,
  ].map((part) => `${part}::${decimal(scales.product)}`);
  // Both sides in the longer type: of two types DuckDB might compare in the shorter.
  const longer = decimal(scales.price + scales.amount);
  const isExact = `${least}::${longer} = ${least}::${decimal(scales.product)}::${longer}`;
  return `CASE WHEN ${isExact} THEN ${parts.join(' + ')} ELSE error(${said}) END`;
}
