/** What is known of Google's models on each of the ways to ask them. */

/**
 * Gemini 3 and later refuse the first call of a step without its signature. Clients may have lost it, and calls of
 * other models never had one. Google documents this value as a replacement.
 */
export const SKIP_SIGNATURE = 'skip_thought_signature_validator'

/** Whether a model is older than this version. False for names without a version. */
export function isBefore(model: string, major: number, minor = 0): boolean {
  const [, itsMajor, itsMinor = '0'] = /gemini-(\d+)(?:\.(\d+))?/.exec(model) ?? []
  if (itsMajor === undefined) return false
  return Number(itsMajor) < major || (Number(itsMajor) === major && Number(itsMinor) < minor)
}
