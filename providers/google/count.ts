/** Counts of prompts, by Google. */
import type { Host } from '../../src/plugin.ts'
import { countOrNone, notAnAnswer } from '../shared/http.ts'
import { readJson, type Client } from './client.ts'

/** A request whose prompt is counted. */
interface Counted {
  /** Of the answer that would be asked for. */
  readonly body: Readonly<Record<string, unknown>>
  readonly model: string
  readonly isVertex: boolean
  readonly signal: AbortSignal
}

/** Has Google count the tokens of a request. Vertex AI takes its members bare, the Gemini API as a whole request. */
export async function countTokens(
  { body, model, isVertex, signal }: Counted,
  client: Client,
  host: Host,
): Promise<number> {
  const { contents, systemInstruction, tools } = body
  const read = { contents, systemInstruction, tools }
  const name = model.includes('/') ? model : `models/${model}`
  const asked = isVertex ? read : { generateContentRequest: { model: name, ...read } }
  const response = await client.post(model, 'countTokens', asked, { signal })
  const { totalTokens } = Object(await readJson(response, host))
  const tokens = countOrNone(totalTokens)
  if (tokens === null) throw notAnAnswer(host.fail)
  return tokens
}
