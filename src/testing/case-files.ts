/** Cases of guards, search engines and sinks as files of one folder: `<name>.json`, and `<name>.http` where a service answers. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { ConfigError, FAILURE_CLASSES } from '../errors/errors.ts'
import { toConfigIssues } from '../errors/issues.ts'
import type { GuardCase } from './guard-cases.ts'
import type { PaymentsCase } from './payments.ts'
import type { SearchCase } from './search-cases.ts'
import { EVENT_NAMES, type SinkCase } from './sink-cases.ts'
import { parseHttp, type RecordedResponse } from './transcripts.ts'

const text = v.string('a text')
const count = v.pipe(v.number('a count'), v.integer(), v.minValue(0))
const texts = v.optional(v.array(text))
const guardFile = v.strictObject({
  model: v.optional(text),
  texts: v.pipe(
    v.array(
      v.strictObject({
        text,
        side: v.optional(v.picklist(['input', 'output'])),
        channel: v.optional(text),
        rules: v.optional(v.strictObject({ scopes: texts, deny: texts, bannedPatterns: texts })),
        expect: text,
        spans: v.optional(v.array(v.strictObject({ start: count, end: count }))),
        locates: v.optional(
          v.array(v.strictObject({ start: count, end: count, label: v.optional(text) })),
        ),
      }),
    ),
    v.minLength(1),
  ),
})
const domains = v.optional(v.array(v.strictObject({ host: text, path: v.optional(text) })))
const searchFile = v.strictObject({
  query: v.optional(
    v.strictObject({
      text: v.optional(text),
      maxResults: v.optional(count),
      includeDomains: domains,
      excludeDomains: domains,
    }),
  ),
  expect: v.strictObject({
    results: v.optional(
      v.array(
        v.strictObject({
          url: text,
          title: text,
          content: text,
          publishedAt: v.optional(text),
        }),
      ),
    ),
    vendorCost: v.optional(text),
    failure: v.optional(v.picklist(FAILURE_CLASSES)),
    retry_after_ms: v.optional(count),
    sent: v.optional(v.looseObject({})),
  }),
})

const sinkFile = v.strictObject({
  events: v.pipe(
    v.array(
      v.strictObject({
        event: v.picklist(EVENT_NAMES),
        id: v.optional(text),
        at: v.optional(text),
        data: v.optional(v.looseObject({})),
      }),
    ),
    v.minLength(1),
  ),
  expect: v.strictObject({
    sent: v.optional(v.union([v.array(v.unknown()), v.looseObject({})])),
    requests: v.optional(count),
    failure: v.optional(v.picklist(FAILURE_CLASSES)),
    retry_after_ms: v.optional(count),
  }),
})

const payment = v.looseObject({ type: text, id: text, amount: text, currency: text })
const paymentsFile = v.strictObject({
  body: v.optional(v.union([text, v.looseObject({})])),
  order: v.optional(v.looseObject({})),
  find: v.optional(text),
  expect: v.strictObject({
    events: v.optional(v.array(payment)),
    checkout: v.optional(v.strictObject({ id: text, url: text })),
  }),
})

/** The cases of a payment plugin, sorted by name. @throws ConfigError that names the file and the mistake */
export async function readPaymentsCases(folder: string): Promise<PaymentsCase[]> {
  const files = await readFiles(folder, paymentsFile)
  return files.map(({ name, content, answer }) => {
    return { name, ...content, ...(answer && { answer }) } as PaymentsCase
  })
}

/** The cases of a sink, sorted by name. @throws ConfigError that names the file and the mistake */
export async function readSinkCases(folder: string): Promise<SinkCase[]> {
  const files = await readFiles(folder, sinkFile)
  return files.map(({ name, content, answer }) => {
    return { name, ...content, ...(answer && { answer }) } as SinkCase
  })
}

/** The cases of a guard, sorted by file. @throws ConfigError that names the file and the mistake */
export async function readGuardCases(folder: string): Promise<GuardCase[]> {
  const files = await readFiles(folder, guardFile)
  return files.flatMap(({ name, content: { texts, model }, answer }) =>
    texts.map((one, i) => ({
      ...(one as GuardCase),
      name: texts.length > 1 ? `${name} ${i + 1}` : name,
      ...(model !== undefined && { model }),
      ...(answer && { answer }),
    })),
  )
}

/** The cases of a search engine, sorted by name. @throws ConfigError that names the file and the mistake */
export async function readSearchCases(folder: string): Promise<SearchCase[]> {
  const files = await readFiles(folder, searchFile)
  return files.map(({ name, content: { query, expect }, answer }) => {
    if (!answer) {
      const message = `there is no ${name}.http with the answer of the service`
      throw new ConfigError(folder, [{ path: `${name}.json`, message }])
    }
    return { name, ...(query && { query }), answer, expect } as SearchCase
  })
}

interface CaseFile<Content> {
  readonly name: string
  readonly content: Content
  readonly answer?: RecordedResponse
}

async function readFiles<S extends v.GenericSchema>(
  folder: string,
  schema: S,
): Promise<CaseFile<v.InferOutput<S>>[]> {
  const files = await readdir(folder).catch(() => {
    throw new ConfigError(folder, [{ path: '.', message: 'the folder does not exist' }])
  })
  const names = files.filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5))
  if (names.length === 0) {
    const message = 'the folder has no cases; expected files such as hello.json'
    throw new ConfigError(folder, [{ path: '.', message }])
  }
  return Promise.all(
    names.toSorted().map(async (name) => {
      const path = join(folder, `${name}.json`)
      const parsed = parse(await readFile(path, 'utf8'), path)
      const result = v.safeParse(schema, parsed)
      if (!result.success) {
        const source = { path: [], value: parsed }
        throw new ConfigError(path, toConfigIssues(result.issues, source, schema))
      }
      if (!files.includes(`${name}.http`)) return { name, content: result.output }
      const http = join(folder, `${name}.http`)
      return { name, content: result.output, answer: parseHttp(await readFile(http), http) }
    }),
  )
}

function parse(json: string, path: string): unknown {
  try {
    return JSON.parse(json)
  } catch (error) {
    throw new ConfigError(path, [{ path: '.', message: (error as Error).message }])
  }
}
