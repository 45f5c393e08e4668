/** UTF-16 code units of a text. Looking into an array is faster than looking into a string. */
export type Utf16 = Uint16Array

/** The code point that begins here; half of a pair where there is no other half. */
export function codePointAt(units: Utf16, at: number): number {
  const unit = units[at]!
  const next = (unit & 0xfc00) === 0xd800 && at + 1 < units.length ? units[at + 1]! : 0
  return (next & 0xfc00) === 0xdc00 ? 0x10000 + ((unit & 0x3ff) << 10) + (next & 0x3ff) : unit
}
