/** Dates, times and durations of RFC 3339. */

const date = /^(\d{4})-(\d\d)-(\d\d)$/;
const time = /^(\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:z|([+-])(\d\d):(\d\d))$/i;

export function isDate(text: string): boolean {
  const [, year, month, day] = (date.exec(text) ?? []).map(Number);
  if (year === undefined || month === undefined || day === undefined) return false;
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month);
}

function daysIn(year: number, month: number): number {
  // Day 0 of the next month. The calendar repeats after 400 years; Date would take the years 0 to 99 for 1900 to 1999.
  return new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
}

export function isTime(text: string): boolean {
  const parts = time.exec(text);
  if (parts === null) return false;
  const [hour = 0, minute = 0, second = 0] = parts.slice(1, 4).map(Number);
  const [offsetHour, offsetMinute] = [Number(parts[5] ?? 0), Number(parts[6] ?? 0)];
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return false;
  if (second < 60) return true;
  // A leap second is the last one of a day in UTC.
  const offset = (offsetHour * 60 + offsetMinute) * (parts[4] === "-" ? -1 : 1);
  return (hour * 60 + minute - offset + minutesPerDay) % minutesPerDay === minutesPerDay - 1;
}

const minutesPerDay = 24 * 60;

/** RFC 3339 lets applications write a space in place of the T. */
export function isDateTime(text: string): boolean {
  return /^[t ]$/i.test(text.charAt(10)) && isDate(text.slice(0, 10)) && isTime(text.slice(11));
}

const days = String.raw`(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)`;
const hours = String.raw`T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`;
const duration = new RegExp(String.raw`^P(?:\d+W|${days}(?:${hours})?|${hours})$`);

/** Of RFC 3339, appendix A: units follow each other without a gap, `P1Y2M` and not `P1Y2D`. */
export function isDuration(text: string): boolean {
  return duration.test(text);
}
