/** Dates, times and durations of RFC 3339. */

const date = /^\d{4}-\d\d-\d\d$/;
const time = /^\d\d:\d\d:\d\d(?:\.\d+)?(?:z|[+-]\d\d:\d\d)$/i;
const minutesPerDay = 24 * 60;

export function isDate(text: string): boolean {
  if (!date.test(text)) return false;
  const [month, day] = [numberAt(text, 5), numberAt(text, 8)];
  return month >= 1 && month <= 12 && day >= 1 && (day <= 28 || day <= daysIn(Number(text.slice(0, 4)), month));
}

function daysIn(year: number, month: number): number {
  // Day 0 of the next month. The calendar repeats after 400 years; Date would read the years 0 to 99 as 1900 to 1999.
  return new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
}

export function isTime(text: string): boolean {
  if (!time.test(text)) return false;
  const [hour, minute, second] = [numberAt(text, 0), numberAt(text, 3), numberAt(text, 6)];
  if (hour > 23 || minute > 59 || second > 60) return false;
  const offset = offsetMinutes(text);
  if (offset === undefined || second < 60) return offset !== undefined;
  // A leap second is the last one of a day in UTC.
  return (hour * 60 + minute - offset + minutesPerDay) % minutesPerDay === minutesPerDay - 1;
}

/** The offset of a time that ends with Z or an offset; undefined if the offset is invalid. */
function offsetMinutes(text: string): number | undefined {
  if (/z$/i.test(text)) return 0;
  const [hours, minutes] = [numberAt(text, text.length - 5), numberAt(text, text.length - 2)];
  if (hours > 23 || minutes > 59) return undefined;
  return (hours * 60 + minutes) * (text.charAt(text.length - 6) === "-" ? -1 : 1);
}

/** The number in two digits. */
function numberAt(text: string, at: number): number {
  return (text.charCodeAt(at) - 48) * 10 + text.charCodeAt(at + 1) - 48;
}

/** RFC 3339 allows a space instead of the T. */
export function isDateTime(text: string): boolean {
  const separator = text.charAt(10);
  return (separator === "T" || separator === "t" || separator === " ") && isDate(text.slice(0, 10)) && isTime(text.slice(11));
}

const days = String.raw`(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)`;
const hours = String.raw`T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`;
const duration = new RegExp(String.raw`^P(?:\d+W|${days}(?:${hours})?|${hours})$`);

/** RFC 3339, appendix A: no unit may be skipped, so `P1Y2M` is valid and `P1Y2D` is not. */
export function isDuration(text: string): boolean {
  return duration.test(text);
}
