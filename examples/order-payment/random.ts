/** A whole number of milliseconds in this range. */
export function betweenMs(min: number, max: number): number {
  return Math.round(min + Math.random() * (max - min));
}

export function oneIn(count: number): boolean {
  return Math.random() * count < 1;
}
