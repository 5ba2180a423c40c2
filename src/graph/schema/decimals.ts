/** A number in decimal: `digits` times ten to the power of `exponent`. */
interface Decimal {
  readonly digits: bigint;
  readonly exponent: number;
}

/** `1.25e-7` → 125 and -9. The value must be finite. */
function decimalOf(value: number): Decimal {
  const [mantissa = "", power = "0"] = String(value).split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
}

/**
 * Whether a value is an integer multiple of this number. Uses decimal arithmetic: 0.3 is a multiple of 0.1, although the
 * remainder of the two binary floats is not 0.
 */
export function multipleOf(divisor: number): (value: number) => boolean {
  const { digits, exponent } = decimalOf(divisor);
  const isSafe = Number.isSafeInteger(divisor);
  return (value) => {
    if (isSafe && Number.isSafeInteger(value)) return value % divisor === 0;
    if (!Number.isFinite(value)) return false;
    const dividend = decimalOf(value);
    const shift = dividend.exponent - exponent;
    if (shift >= 0) return (dividend.digits * 10n ** BigInt(shift)) % digits === 0n;
    return dividend.digits % (digits * 10n ** BigInt(-shift)) === 0n;
  };
}
