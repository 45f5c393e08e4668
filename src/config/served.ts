/** What the providers of a configuration serve, once they are set up. */
import type { ConfigIssue } from '../errors/errors.ts'
import { lacks, type Capability } from '../models/capabilities.ts'
import type { Catalog, Deployment, Model } from '../models/catalog.ts'
import { modalityOf, type Modality } from '../models/entry.ts'
import type { Provider } from '../plugin.ts'
import type { Config } from './config.ts'

/** The method of a provider that serves a modality. */
const METHODS: Readonly<Record<Modality, keyof Provider>> = {
  chat: 'chat',
  image: 'generateImage',
  ocr: 'ocr',
  speech: 'speech',
  transcription: 'transcribe',
  embedding: 'embed',
  rerank: 'rerank',
  moderation: 'moderate',
}

/** A method that a capability needs beside that of its modality. */
interface Further {
  readonly capability: Capability
  readonly method: 'editImage' | 'complete'
  /** What a provider without it does not do. */
  readonly lack: string
}

const FURTHER: Readonly<Partial<Record<Modality, Further>>> = {
  image: { capability: 'REFERENCES', method: 'editImage', lack: 'edits no images' },
  chat: {
    capability: 'COMPLETIONS',
    method: 'complete',
    lack: 'does not complete texts with these options of the deployment',
  },
}

/** The models without those that a wildcard adds and no provider of it serves: a list also has other kinds of models. */
export function servedModels(
  models: Config['models'],
  providers: ReadonlyMap<string, Provider>,
): Config['models'] {
  const served = Object.entries(models).filter(
    ([, entry]) =>
      entry.wildcard === undefined ||
      entry.deployments.every(({ provider: name }) => {
        const provider = providers.get(name)
        if (!provider) return true
        const modality = modalityOf(entry)
        const { capabilities, listed } = entry
        const further = furtherOf({
          modality,
          capabilities: capabilities && new Set(capabilities),
          ...(listed && { listed }),
        })
        const methods = [METHODS[modality], ...(further ? [further.method] : [])]
        return methods.every((method) => offers(provider, method))
      }),
  )
  return Object.fromEntries(served)
}

/** Issues of models whose providers, once they are set up, lack the method for them. */
export function checkProviders(
  config: Config,
  catalog: Catalog,
  providers: ReadonlyMap<string, Provider>,
): ConfigIssue[] {
  const wildcards = Object.entries(catalog.naming.wildcards).map(([id, wildcard]) => ({
    id,
    modality: modalityOf(wildcard),
    deployments: wildcard.deployments ?? [{ provider: id.slice(0, -2), options: {} }],
    capabilities: undefined,
  }))
  return [...catalog.all(), ...wildcards].flatMap((model) => {
    const { id, modality, deployments } = model
    const further = furtherOf(model)
    return deployments.flatMap((deployment, index) => {
      const provider = providers.get(deployment.provider)
      if (!provider) return []
      const serves = offers(provider, METHODS[modality])
      if (serves && (!further || completes(provider, further.method, deployment))) return []
      const { use } = config.providers[deployment.provider]!
      const plugin = typeof use === 'string' ? use : use.name
      const offered = Object.keys(METHODS).filter((other) =>
        offers(provider, METHODS[other as Modality]),
      )
      const wanted = `${modality} models${serves ? ` with the capability ${further!.capability}` : ''}`
      const message =
        `expected a provider for ${wanted}, found "${deployment.provider}" (${plugin}), ` +
        `which serves ${offered.join(', ') || 'nothing'}${serves ? `, and ${further!.lack}` : ''}`
      return [{ path: `models.${id}.deployments.${index}.provider`, message }]
    })
  })
}

type Needy = Pick<Model, 'modality' | 'capabilities' | 'listed'>

function furtherOf(model: Needy): Further | undefined {
  const further = FURTHER[model.modality]
  return further && !lacks(model, further.capability) ? further : undefined
}

/** Whether a deployment of a provider is asked with this method. */
function completes(
  provider: Provider,
  method: Further['method'],
  { model = '', options = {} }: Partial<Pick<Deployment, 'model' | 'options'>>,
): boolean {
  if (!offers(provider, method)) return false
  return method !== 'complete' || (provider.takes?.(method, { model, options }) ?? true)
}

function offers(provider: Provider, method: keyof Provider): boolean {
  return typeof provider[method] === 'function'
}
