/** `Provider.models` of Bedrock: models that can be called by their own names, and inference profiles for the others. */
import type { Host, OfferedModel, UpstreamResponse } from '../../src/plugin.ts'
import { joinUrl } from '../shared/http.ts'
import { isName, MAX_PAGES, notAList, pageOf } from '../shared/offers.ts'

/** Kinds of models by what they answer with. */
const MODALITIES: Readonly<Record<string, string>> = {
  TEXT: 'chat',
  IMAGE: 'image',
  EMBEDDING: 'embedding',
}

interface Summary {
  readonly modelId?: unknown
  readonly modelName?: unknown
  readonly inputModalities?: unknown
  readonly outputModalities?: unknown
  readonly inferenceTypesSupported?: unknown
}

interface Profile {
  readonly inferenceProfileId?: unknown
  readonly inferenceProfileName?: unknown
  readonly models?: unknown
}

/** @param send a signed `GET`; it throws the failure of another status than 2xx */
export function bedrockModels(
  host: Host,
  base: string,
  send: (url: string, signal: AbortSignal) => Promise<UpstreamResponse>,
): (signal: AbortSignal) => Promise<readonly OfferedModel[]> {
  return async (signal) => {
    const list = async (path: string) => pageOf(host, await send(joinUrl(base, path), signal))
    const { modelSummaries: summaries } = await list('foundation-models')
    if (!Array.isArray(summaries)) throw notAList(host)
    const byId = new Map<unknown, Summary>(summaries.map((one: Summary) => [one.modelId, one]))
    const models = [...byId.values()].flatMap((one) =>
      listed(one.inferenceTypesSupported).includes('ON_DEMAND')
        ? offerOf(one.modelId, one.modelName, one)
        : [],
    )
    let next = ''
    for (let page = 0; page < MAX_PAGES; page++) {
      const { inferenceProfileSummaries: profiles, nextToken } = await list(
        `inference-profiles?maxResults=1000${next}`,
      )
      for (const one of listed(profiles) as readonly Profile[]) {
        const [first] = listed(one.models) as readonly { readonly modelArn?: unknown }[]
        const name = String(first?.modelArn).split('/').at(-1)
        models.push(...offerOf(one.inferenceProfileId, one.inferenceProfileName, byId.get(name)))
      }
      if (typeof nextToken !== 'string') break
      next = `&nextToken=${encodeURIComponent(nextToken)}`
    }
    return models
  }
}

function offerOf(id: unknown, name: unknown, summary: Summary = {}): OfferedModel[] {
  if (!isName(id)) return []
  const output = listed(summary.outputModalities).find((one) =>
    Object.hasOwn(MODALITIES, String(one)),
  )
  return [
    {
      id,
      ...(typeof name === 'string' && { name }),
      ...(output !== undefined && { modality: MODALITIES[String(output)]! }),
    },
  ]
}

function listed(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
