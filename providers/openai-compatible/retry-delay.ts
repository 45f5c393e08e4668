/** Reads how long a vendor asks to wait, from headers, error details or the error message. */

/** Milliseconds of Google's `RetryInfo` in the details of an error. */
export function retryInfoDelay(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined
  const delay = details.find((detail) => typeof detail?.retryDelay === 'string')?.retryDelay
  return delay === undefined ? undefined : waitMs(delay)
}

/** Milliseconds that the headers ask to wait. */
export function retryAfter(headers: Readonly<Record<string, string>>): number | undefined {
  const exactMs = Number(headers['retry-after-ms'])
  if (exactMs > 0) return exactMs
  const wait = headers['retry-after'] && waitMs(headers['retry-after'])
  if (wait) return wait
  const waits: number[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (!/ratelimit.*-reset/.test(name)) continue
    // A rate limit that is not exhausted did not cause the error.
    if (Number(headers[name.replace('-reset', '-remaining')]) > 0) continue
    const ms = waitMs(value)
    if (ms) waits.push(ms)
  }
  return waits.length > 0 ? Math.max(...waits) : undefined
}

/** Milliseconds that an error message asks to wait. */
export function waitInText(message: string): number | undefined {
  const [, wait] = /(?:try again|retry) (?:in|after) (\d[\d.hms]*)/i.exec(message) ?? []
  return wait === undefined ? undefined : waitMs(wait.replace(/\.$/, ''))
}

const UNITS_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/**
 * Milliseconds from now for seconds (`2`), a duration (`2m59.56s`, `120ms`), a Unix time in seconds or milliseconds, or
 * a date.
 */
function waitMs(value: string): number | undefined {
  const number = Number(value)
  if (Number.isFinite(number)) {
    const ms =
      number > 1e12
        ? number - Date.now()
        : number > 1e9
          ? number * 1000 - Date.now()
          : number * 1000
    return ms > 0 ? ms : undefined
  }
  if (/^(?:\d+(?:\.\d+)?(?:ms|[hms]))+$/.test(value)) {
    let ms = 0
    for (const [, amount, unit] of value.matchAll(/(\d+(?:\.\d+)?)(ms|[hms])/g)) {
      ms += Number(amount) * UNITS_MS[unit!]!
    }
    return ms
  }
  const ms = Date.parse(value) - Date.now()
  return ms > 0 ? ms : undefined
}
