/** What the providers of a configuration serve, once they are set up. */
import type { ConfigIssue } from '../errors/errors.ts'
import { lacks } from '../models/capabilities.ts'
import type { Catalog } from '../models/catalog.ts'
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
        return !provider || offers(provider, METHODS[modalityOf(entry)])
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
    deployments: wildcard.deployments ?? [{ provider: id.slice(0, -2) }],
    capabilities: undefined,
  }))
  return [...catalog.all(), ...wildcards].flatMap((model) => {
    const { id, modality, deployments } = model
    const edits = modality === 'image' && !lacks(model, 'REFERENCES')
    return deployments.flatMap((deployment, index) => {
      const provider = providers.get(deployment.provider)
      if (!provider) return []
      const serves = offers(provider, METHODS[modality])
      if (serves && (!edits || offers(provider, 'editImage'))) return []
      const { use } = config.providers[deployment.provider]!
      const plugin = typeof use === 'string' ? use : use.name
      const offered = Object.keys(METHODS).filter((other) =>
        offers(provider, METHODS[other as Modality]),
      )
      const wanted = serves ? 'image models with the capability REFERENCES' : `${modality} models`
      const message =
        `expected a provider for ${wanted}, found "${deployment.provider}" (${plugin}), ` +
        `which serves ${offered.join(', ') || 'nothing'}${serves ? ', and edits no images' : ''}`
      return [{ path: `models.${id}.deployments.${index}.provider`, message }]
    })
  })
}

function offers(provider: Provider, method: keyof Provider): boolean {
  return typeof provider[method] === 'function'
}
