/**
 * Reads recorded traffic with vendors and recorded cases for guards. They lie beside this repository or in
 * `FIXTURES_DIR` and are not part of it. Where they are missing, the tests skip and say what they could not check.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, it } from 'vitest'
import { boundariesOf, cutAt, type FakeResponse } from './upstream.ts'

/** One recorded exchange. */
export interface Recording {
  /** `<vendor>/<case>` */
  readonly name: string
  readonly vendor: string
  readonly method: string
  /** What the vendor's server was asked for. */
  readonly path: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly stream: boolean
  readonly body: Buffer
  /** What was sent; absent when the source did not keep it. */
  readonly request: any
}

const folder =
  process.env.FIXTURES_DIR ?? fileURLToPath(new URL('../../shared/fixtures', import.meta.url))

/** The recordings of these vendors whose path matches; none when the folder is missing. */
export function recordingsOf(vendors: readonly string[], path = /./): Recording[] {
  return vendors
    .filter((vendor) => existsSync(join(folder, vendor)))
    .flatMap((vendor) =>
      readdirSync(join(folder, vendor))
        .filter((name) => existsSync(join(folder, vendor, name, 'meta.json')))
        .map((name) => read(vendor, name)),
    )
    .filter((recording) => path.test(recording.path))
}

/**
 * Describes tests over recordings. Where there are none, one test takes their place that is skipped with the reason.
 */
export function describeRecorded(
  title: string,
  vendors: readonly string[],
  path: RegExp,
  tests: (recordings: readonly Recording[]) => void,
): void {
  describe(title, () => {
    const missing = vendors.filter((vendor) => !existsSync(join(folder, vendor)))
    if (missing.length > 0) {
      const reason = `no recorded traffic of ${missing.join(', ')}; set FIXTURES_DIR to have it checked`
      it(`recorded traffic of ${missing.join(', ')}`, (context) => context.skip(reason))
    }
    const found = recordingsOf(vendors, path)
    if (found.length > 0) tests(found)
  })
}

/**
 * Entries of a recorded list, a file of JSON Lines such as `guard/patterns.jsonl`; undefined when the file is missing.
 */
export function recordedCases(path: string): any[] | undefined {
  const file = join(folder, path)
  return existsSync(file) ? readJsonLines(file) : undefined
}

/** The text of a file, such as `migration/litellm.yaml`; undefined when it is missing. */
export function recordedText(path: string): string | undefined {
  const file = join(folder, path)
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

/** The values of a file of JSON Lines. */
export function readJsonLines(file: string): any[] {
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

/** The recorded answer in one piece. */
export function whole({ status, headers, body }: Recording): FakeResponse {
  return { status, headers, pieces: [body] }
}

/** The same answer, one piece an event. */
export function byEvents(recording: Recording): FakeResponse {
  return {
    ...whole(recording),
    pieces: cutAt(recording.body, boundariesOf(recording.body, 'text/event-stream')),
  }
}

function read(vendor: string, name: string): Recording {
  const at = (file: string) => join(folder, vendor, name, file)
  const { method, path, status, headers, stream, body_file } = JSON.parse(
    readFileSync(at('meta.json'), 'utf8'),
  )
  return {
    name: `${vendor}/${name}`,
    vendor,
    method,
    path,
    status,
    headers,
    stream,
    body: readFileSync(at(body_file)),
    request: existsSync(at('request.json'))
      ? JSON.parse(readFileSync(at('request.json'), 'utf8'))
      : undefined,
  }
}
