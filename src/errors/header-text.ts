/** A text as an item of a list in a header: visible ASCII, and UTF-8 in percent encoding for anything else. */
export function headerText(text: string): string {
  return text.toWellFormed().replace(/[^\x21-\x7e]|[,%]/gu, (sign) => encodeURIComponent(sign))
}
